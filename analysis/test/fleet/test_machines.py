# SPDX-License-Identifier: MIT
"""Two machines, one of which takes twice as long, through all steps of a fleet: plan, shares, store, figures, report.

Times are from a clock of the tests.
"""

import random

import pytest
from heaptape.fleet.matrix import against_baseline
from heaptape.fleet.store import open_store
from heaptape.run import replay

from analysis.test.fleet.fleets import ALLOCATORS, make_workloads, plan, pooled
from tests.support import call_heaptape

REPETITIONS = 12
CANDIDATE_NS = {"glibc": 1e9, "reference": 0.94e9}
NOISE = 0.01


@pytest.fixture
def slow_by(monkeypatch):
    """Sets the clock for all later runs, of a machine that takes `factor` times as long."""
    chance, measured = random.Random(5), replay.measure
    clock = {"factor": 1.0}

    def by_the_clock(engine, run, *arguments):
        made = measured(engine, run, *arguments)
        assert made["cpu_ns"] > 0
        taken = clock["factor"] * CANDIDATE_NS[run.choice.allocator] * chance.lognormvariate(0, NOISE)
        return made | {"cpu_ns": round(taken), "wall_ns": round(taken)}

    monkeypatch.setattr(replay, "measure", by_the_clock)
    return lambda factor: clock.update(factor=factor)


def test_of_two_unequal_machines_the_block_keeps_the_verdict_that_pooling_loses(slow_by, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store = str(tmp_path / "s")
    assert plan(store, *make_workloads(tmp_path, 1), "-n", REPETITIONS, passes="bare").status == 0
    for share, machine, factor in (("0/4", "fast", 1), ("1/4", "slow", 2), ("2/4", "slow", 2), ("3/4", "slow", 2)):
        slow_by(factor)
        done = call_heaptape("fleet", "work", store, "--share", share, "--machine", machine)
        assert done.stdout.startswith(f"{REPETITIONS * len(ALLOCATORS) // 4} cells done here"), done.stderr
    results = open_store(store).results()
    here = against_baseline(results, "glibc").set_index("figure").loc["bare_cpu"]
    assert (here["machines"], here["blocks"]) == (2, REPETITIONS)
    assert 0.92 < here["low"] < 0.94 < here["high"] < 0.96
    low, high = pooled(results[results["figure"] == "bare_cpu"], "reference", "glibc")
    assert low < 0.8 < 1.1 < high
    report = call_heaptape("fleet", "report", store, "-o", tmp_path / "fleet.html")
    assert report.status == 0, report.stderr
    assert "reference" in report.stdout

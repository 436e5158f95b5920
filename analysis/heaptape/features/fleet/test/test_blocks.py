# SPDX-License-Identifier: MIT
"""Figures of several machines against a baseline: the machine is a block. Two machines, one of which takes twice as
long, through all steps of a fleet: plan, shares, store, figures, report. Times are from a clock of the tests.
"""

import math
import random

import numpy as np
import pandas as pd
import pytest
from heaptape.features.fleet.matrix import against_baseline, effect
from heaptape.features.fleet.store import COLUMNS, open_store
from heaptape.features.fleet.test.fleets import ALLOCATORS, make_workloads, plan, pooled
from heaptape.run import replay

from tests.support import call_heaptape


def rows(label, values, *, pass_="bare", machine="m", figure="bare_cpu", workload="w" * 64):
    """Results of one label, one per block; blocks are numbered."""
    fixed = {
        "workload": workload, "name": "w", "program": "p", "weight": 1.0, "allocator": label, "library": "l",
        "label": label,
        "environment": "", "pass_": pass_, "order": "window", "repetition": 0, "machine": machine, "figure": figure,
        "unit": "ns",
    }  # fmt: skip
    return pd.DataFrame([fixed | {"block": f"{machine}{n}", "value": value} for n, value in values.items()])[COLUMNS]


def two_machines(rng, saved=0.94, noise=0.01):
    """Baseline and candidate on a machine and on one slowed by half: three blocks of the fast machine, nine of the slow
    one, and two more of the fast one's baseline without a candidate.
    """
    parts = []
    for machine, speed, blocks in (("fast", 1.0, 3), ("slow", 2.0, 9)):
        for label, cost in (("glibc", 1.0), ("other", saved)):
            count = blocks + 2 * (machine == "fast" and label == "glibc")
            times = 1e9 * speed * cost * np.exp(rng.normal(0, noise, count))
            parts.append(rows(label, dict(enumerate(times)), machine=machine))
    return pd.concat(parts, ignore_index=True)


def test_two_machines_that_agree_predict_others_and_one_predicts_nothing():
    here = against_baseline(two_machines(np.random.default_rng(3), saved=0.8, noise=0.002), "glibc").iloc[0]
    assert here["low_elsewhere"] <= here["low"] < here["high"] <= here["high_elsewhere"] < 1
    one = pd.concat([rows("glibc", {0: 10.0, 1: 11.0}), rows("other", {0: 9.0, 1: 10.0})])
    alone = against_baseline(one, "glibc").iloc[0]
    assert alone["machines"] == 1
    assert not math.isnan(alone["low"])
    assert math.isnan(alone["low_elsewhere"])
    assert math.isnan(alone["between"])


@pytest.mark.parametrize(("counts", "between"), [([5, 5], 1.0), ([2, 5, 9], 0.0), ([2, 5, 9], 1.0), ([1] * 6, 2.0)])
def test_intervals_cover_as_often_as_they_say(counts, between):
    """95 %; 300 draws may show slightly less: within four standard deviations."""
    rng = np.random.default_rng(11)
    inside = 0
    for _ in range(300):
        found = effect([rng.normal(rng.normal(0, between * 0.02), 0.02, count) for count in counts])
        low, high = found.elsewhere.bounds()
        inside += low <= 0 <= high
    assert inside / 300 > 0.95 - 4 * math.sqrt(0.95 * 0.05 / 300)


def test_the_difference_between_machines_is_estimated():
    rng = np.random.default_rng(5)
    found = effect([rng.normal(own, 0.001, 20) for own in rng.normal(0, 0.05, 40)])
    assert 0.035 < found.between < 0.065
    assert found.elsewhere.half_width() > 5 * found.here.half_width()


def test_a_block_without_its_baseline_is_left_out():
    results = pd.concat([rows("glibc", {0: 10.0, 2: 20.0}), rows("other", {0: 5.0, 1: 1.0, 2: 10.0})])
    here = against_baseline(results, "glibc").iloc[0]
    assert here["ratio"] == pytest.approx(0.5)
    assert here["blocks"] == 2


def test_exact_figures_have_no_interval_and_are_of_the_pass_that_measures_best():
    parts = [
        rows(label, {0: value}, pass_=pass_, figure="peak_rss")
        for pass_, values in (("bare", (7.0, 7.0)), ("blame", (9.0, 9.0)), ("memory", (8.0, 6.0)))
        for label, value in zip(("glibc", "other"), values, strict=True)
    ]
    table = against_baseline(pd.concat(parts), "glibc")
    assert len(table) == 1
    here = table.iloc[0]
    assert bool(here["exact"])
    assert (here["low"], here["ratio"], here["high"]) == (0.75, 0.75, 0.75)
    assert (here["baseline_value"], here["value"]) == (8.0, 6.0)


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

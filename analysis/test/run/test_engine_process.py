# SPDX-License-Identifier: MIT
"""Runs that only count, several at a time: the same figures as one by one, and none left behind. Exact figures of a
workload on an allocator: one run each, by name. `heaptape replay --verify` on the command line: reports who keeps
promises, and names who doesn't, with the op.
"""

import json
import os
import re
import time
from pathlib import Path

import pytest
from heaptape.allocators import registry
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import default_home
from heaptape.run import exact, replay
from heaptape.run.engine_process import Command, Processes, in_order, run_to_end, side_by_side
from heaptape.run.rounds import Settings

from tests.support import REPOSITORY, call_heaptape

HOME = default_home()
SLEEPER = Command(["sh", "-c", "exec sleep 1000", "engine"], {})


@pytest.fixture(scope="module")
def workload(small_tape, tmp_path_factory):
    return replay.prepare(str(small_tape), HOME, tmp_path_factory.mktemp("side-by-side"))


def counted(workload, jobs):
    """For each run, in order: the allocator, the pass, and the exact figures."""
    known = registry.load(HOME)
    choices = [registry.choose(name, known) for name in ("glibc", "reference")]
    settings = Settings(repeats=2, passes=("memory", "instructions", "verify"), seed=7, jobs=jobs)
    data = replay.replay(workload, replay.describe_workload(workload, "small"), choices, settings, HOME)
    figures = ("rss_anon_peak_bytes", "rss_anon_mean_bytes", "instructions_total", "syscalls", "verified")
    return [(run["allocator"], run["pass"], run["repeat"], *(run.get(key) for key in figures)) for run in data["runs"]]


def test_figures_and_their_order_are_the_same_whatever_number_of_runs_is_made_at_a_time(workload):
    alone = counted(workload, 1)
    assert len(alone) == 2 * (2 + 2 + 1)
    assert counted(workload, 5) == alone


def children():
    """Those of the main thread; other tests of this process may have left one, such as multiprocessing's tracker."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_an_error_of_one_ends_the_others_and_those_that_wait_are_never_started(tmp_path):
    before, processes = children(), Processes()
    started = []

    def work(number):
        started.append(number)
        if number == 2:
            raise HeaptapeError("planted")
        with (tmp_path / f"{number}").open("w") as stderr:
            return run_to_end(processes, SLEEPER, stderr, 0, lambda share: None)

    with pytest.raises(HeaptapeError, match="planted"):
        list(side_by_side(work, range(20), 3, processes))
    assert len(started) < 20
    assert children() <= before


def test_a_caller_that_gives_up_ends_all(tmp_path):
    before, processes = children(), Processes()

    def work(number):
        with (tmp_path / f"{number}").open("w") as stderr:
            return run_to_end(
                processes, Command(["true"], {}) if number == 0 else SLEEPER, stderr, 0, lambda share: None
            )

    done = side_by_side(work, range(3), 3, processes)
    assert next(done)[0] == 0
    done.close()
    assert children() <= before


def test_a_run_that_lasts_too_long_is_ended_alone(tmp_path):
    with (tmp_path / "stderr").open("w") as stderr:
        ended = run_to_end(Processes(), SLEEPER, stderr, 0.1, lambda share: None)
    assert ended == ("no result after 0.1 s", -9)


def test_results_of_in_order_come_in_the_order_of_the_items_and_no_more_than_jobs_are_taken_ahead():
    taken = []

    def items():
        for number in range(20):
            taken.append(number)
            yield number

    def work(number, processes):
        time.sleep(0.02 if number % 3 == 0 else 0)
        return number * number

    seen = []
    for square in in_order(work, items(), 3, Processes()):
        seen.append(square)
        assert len(taken) <= len(seen) + 2
    assert seen == [number * number for number in range(20)]


def test_closing_in_order_ends_the_work_in_progress():
    processes = Processes()

    def work(number, those):
        if number == 0:
            return 0
        with Path(os.devnull).open("w") as nowhere:
            return run_to_end(those, SLEEPER, nowhere, 1000, lambda share: None)

    answers = in_order(work, range(5), 2, processes)
    assert next(answers) == 0
    answers.close()
    assert processes.ended


KNOWN = registry.load(HOME)
GLIBC = registry.choose("glibc", KNOWN)


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    workload = replay.prepare(
        str(REPOSITORY / "workloads" / "corpus" / "gs.tape"), HOME, tmp_path_factory.mktemp("exact")
    )
    return exact.Bench(workload, HOME)


def test_figures_are_the_same_twice_except_faults(bench):
    names = [name for name in exact.FIGURES if name not in ("misses", "faults")]
    first = bench.figures(GLIBC, names)
    assert set(first) == set(names)
    assert first["rss-peak"] >= first["rss-mean"] > 0
    assert bench.figures(GLIBC, names) == first


def test_a_figure_that_is_not_known_is_named(bench):
    with pytest.raises(HeaptapeError, match="unknown figure 'rss': there are rss-peak"):
        bench.figures(GLIBC, ["rss"])


def test_an_allocator_that_fails_is_named(bench, tmp_path):
    broken = registry.Choice("broken", "default", tmp_path / "none.so", str(tmp_path / "none.so"), {})
    with pytest.raises(HeaptapeError, match="^broken, memory pass: "):
        bench.figures(broken, ["rss-peak"])


@pytest.fixture(scope="module")
def faulty(out):
    library = out / "test-programs" / "libfaulty.so"
    assert library.exists()
    return library


def test_an_allocator_that_keeps_its_promises_is_reported_as_such(small_tape, tmp_path):
    output = tmp_path / "v.json"
    done = call_heaptape("replay", small_tape, "--verify", "-a", "glibc", "-o", output)
    assert done.status == 0, done.stderr
    assert re.search(r"^glibc: verification passed: [\d,]+ ops, 4,000 objects of ", done.stdout, re.MULTILINE)
    (run,) = json.loads(output.read_text())["runs"]
    assert run["pass"] == "verify"
    assert run["verified"]["objects"] == 4000


@pytest.mark.parametrize("fault", ["overlap", "misaligned", "free_neighbour", "usable_size"])
def test_an_allocator_that_does_not_is_named_with_the_op(small_tape, tmp_path, faulty, fault):
    choice = f"{faulty}:FAULT={fault} FAULT_AT=20"
    done = call_heaptape("replay", small_tape, "--verify", "-a", "glibc", "-a", choice, "-o", tmp_path / "v.json")
    assert done.status == 1
    assert "glibc: verification passed" in done.stdout
    faults = [line for line in done.stderr.splitlines() if "at fault" in line]
    assert len(faults) == 1
    assert re.search(
        r"verify pass, repetition 1: .*: the allocator is at fault: (op \d+ of thread \d+ \(|after the last op)",
        faults[0],
    )

# SPDX-License-Identifier: MIT
"""Warm rounds: the workload is replayed before it is measured, and what lives is released between."""

import pytest

from .engine import OUT, PLANTED, engine, make, replay

REFERENCE = OUT / "lib/libreference.so"
OPS = 10000


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    path = tmp_path_factory.mktemp("warm") / "single.work"
    make(path, ops=OPS, threads=1, live_objects=800)
    return path


@pytest.mark.parametrize("pass_", ["bare", "time"])
def test_figures_are_of_the_measured_round_alone(single, pass_):
    cold, warm = (replay("--pass", pass_, "--warm", n, "--preload", PLANTED, single) for n in (0, 5))
    assert (cold["ops"], warm["ops"], warm["warm_rounds"]) == (OPS, OPS, 5)
    assert "warm_rounds" not in cold
    if pass_ == "time":
        assert [c["count"] for c in cold["calls"].values()] == [c["count"] for c in warm["calls"].values()]


def test_the_allocator_serves_every_round(single):
    """The planted allocator ends at its n-th malloc: in the third round."""
    calls = replay("--pass", "time", single)["calls"]
    mallocs = calls["malloc"]["count"]
    crash = {"CRASH_AT": mallocs * 5 // 2}
    assert engine("--pass", "bare", "--warm", 1, "--preload", PLANTED, single, **crash).returncode == 0
    died = engine("--pass", "bare", "--warm", 2, "--preload", PLANTED, single, **crash)
    assert "was killed by signal 11" in died.stderr


@pytest.mark.parametrize("order", ["recorded", "window"])
def test_what_lives_is_released_between_rounds(single, order):
    """The heap grows in the first round and no more; the leftovers of twenty rounds would make it grow on."""
    counting = ["--preload", REFERENCE, "--env", "REFERENCE_TUNABLES=stats=1"]
    once, often = (replay("--pass", "bare", "--order", order, "--warm", n, *counting, single) for n in (1, 20))
    assert once["reference_stats"]["brks"] == often["reference_stats"]["brks"] > 0


def test_instructions_are_of_a_grown_heap_and_start_up_stays_what_it_is(single):
    cold, warm = (replay("--pass", "instructions", "--warm", n, "--preload", REFERENCE, single) for n in (0, 1))
    assert cold["instructions_total"] > warm["instructions_total"]
    assert warm["startup_instructions"] == cold["startup_instructions"]
    assert {name: call["count"] for name, call in warm["calls"].items()} == {
        name: call["count"] for name, call in cold["calls"].items()
    }


def test_threads_the_paced_order_and_passes_that_measure_memory_are_refused(single, tmp_path):
    threads = tmp_path / "threads.work"
    make(threads, ops=8000, threads=4, live_objects=100, remote_percent=20)
    refused = engine("--pass", "bare", "--warm", 1, threads)
    assert (refused.returncode, "several threads" in refused.stderr) == (1, True)
    for arguments in (["--pass", "memory"], ["--pass", "bare", "--order", "paced"]):
        refused = engine(*arguments, "--warm", 1, single)
        assert (refused.returncode, "--warm" in refused.stderr) == (2, True), refused.stderr

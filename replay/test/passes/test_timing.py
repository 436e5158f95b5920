# SPDX-License-Identifier: MIT
"""The time pass against an allocator whose costs are known: means, percentiles, slow calls, size classes.

Costs are planted on the tests' own clock (planted_clock.h), so they are measured to the cycle, however busy the machine
is. A reading of that clock takes READING cycles, as readings of the real one do.
"""

import os
import subprocess

import pytest

from ..test_engine import PLANTED, READING, make, replay, replay_on_planted_clock

SMALLEST_OVERHEAD_SAMPLE = 200000 // 61


def in_bucket(cycles, gross):
    """Percentiles are the middle of a bucket of the histogram of gross cycles, which is 1/32 wide; `gross` is the first
    number of cycles of a bucket."""
    return gross <= cycles + READING < gross + gross // 32


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    path = tmp_path_factory.mktemp("timing") / "plain.work"
    return path, make(path, ops=200000, threads=1, only_malloc_free=1, live_objects=500)


def test_one_slow_call_in_a_thousand_shows_in_its_percentile_and_in_no_lower_one(plain):
    """Every 500th malloc (2 in 1,000) is slow: p99.9 is among them, p99 is not."""
    path, made = plain
    fast, slow = 1024 - READING, 65536 - READING
    run = replay_on_planted_clock(
        "--pass", "time", "--preload", PLANTED, path, SPIN_CYCLES=fast, SLOW_EVERY=500, SLOW_CYCLES=slow - fast
    )
    malloc = run["calls"]["malloc"]
    mallocs = made["calls"]["malloc"]
    assert malloc["histogram"] == [[fast, mallocs - mallocs // 500], [slow, mallocs // 500]]
    assert in_bucket(malloc["p50"], 1024)
    assert in_bucket(malloc["p99"], 1024)
    assert in_bucket(malloc["p999"], 65536)
    assert malloc["max"] == slow


@pytest.mark.parametrize("planted", [0, 1, 500, 3000, 1_000_003])
def test_mean_of_a_planted_cost_is_that_cost(plain, planted):
    path, made = plain
    run = replay_on_planted_clock("--pass", "time", "--preload", PLANTED, path, SPIN_CYCLES=planted)
    assert run["calls"]["malloc"]["mean"] == run["calls"]["malloc"]["max"] == planted
    assert run["calls"]["malloc"]["cycles_total"] == run["cycles_total"] == planted * made["calls"]["malloc"]
    assert run["calls"]["free"]["mean"] == run["calls"]["free"]["max"] == 0


def test_slowest_calls_are_kept_with_their_place(plain):
    """One malloc in 5,000 is slow: about 20, all of them among the 64 slowest."""
    path, made = plain
    run = replay_on_planted_clock("--pass", "time", "--preload", PLANTED, path, SLOW_EVERY=5000, SLOW_CYCLES=20_000_000)
    planted = [call for call in run["slowest"] if call["cycles"] > 0]
    assert len(planted) == made["calls"]["malloc"] // 5000 > 10
    assert all(call["cycles"] == 20_000_000 for call in planted)
    assert all(call["call"] == "malloc" and call["thread"] == 0 for call in planted)
    assert [call["cycles"] for call in run["slowest"]] == sorted((c["cycles"] for c in run["slowest"]), reverse=True)
    assert all(call["position"] == call["op"] for call in run["slowest"])
    assert len({call["op"] for call in run["slowest"]}) == len(run["slowest"]) == 64


def test_positions_of_slow_calls_are_recorded_ones(tmp_path):
    """With threads: positions are different, and within the recording."""
    path = tmp_path / "threads.work"
    made = make(path, ops=20000, threads=5, live_objects=100)
    run = replay("--pass", "time", "--preload", PLANTED, path)
    positions = [call["position"] for call in run["slowest"]]
    assert len(set(positions)) == len(positions) == 64
    assert all(call["op"] <= call["position"] < made["ops"] for call in run["slowest"])


def test_size_classes_add_up_to_the_call(plain):
    path, made = plain
    run = replay("--pass", "time", "--preload", PLANTED, path)
    for name, call in run["calls"].items():
        assert sum(size["count"] for size in call["sizes"]) == call["count"] == made["calls"][name]
        bounds = [size["up_to_bytes"] for size in call["sizes"]]
        assert bounds == sorted(bounds)
        assert set(bounds) <= {0, *(16 << shift for shift in range(19))}
        histogram = sum(count for size in call["sizes"] for _, count in size["histogram"])
        assert histogram == sum(count for _, count in call["histogram"])


def test_cost_of_timing_is_measured_among_the_calls_and_taken_off(plain):
    path, _ = plain
    run = replay_on_planted_clock("--pass", "time", "--touch", "none", "--preload", PLANTED, path, SPIN_CYCLES=77)
    about = run["counter_overhead"]
    assert about["measured"] == "among calls"
    assert about["samples"] >= SMALLEST_OVERHEAD_SAMPLE
    assert about["left_out"] == about["standard_error_cycles"] == about["deviation_cycles"] == 0
    assert run["counter_overhead_cycles"] == about["before_cycles"] == about["step_cycles"] == READING
    assert run["calls"]["malloc"]["mean"] == 77
    assert run["below_overhead"] == 0


def test_cost_of_timing_is_reported_of_the_real_counter_too(plain):
    path, _ = plain
    run = replay("--pass", "time", "--touch", "none", path)
    about = run["counter_overhead"]
    assert about["measured"] == "among calls"
    assert about["samples"] + about["left_out"] >= SMALLEST_OVERHEAD_SAMPLE
    assert about["step_cycles"] >= 1
    assert run["counter_overhead_cycles"] > 0


def test_preempted_calls_are_counted_separately_and_sleeping_ones_are_not(plain):
    """One malloc in 1,000 is preempted and one in 1,009 sleeps in a lock. The slow ones are all among the preempted, so
    that their cycles must not show elsewhere."""
    path, made = plain
    mallocs = made["calls"]["malloc"]
    plants = {"SPIN_CYCLES": 500, "SLOW_EVERY": 1000, "SLOW_CYCLES": 20_000, "PREEMPT_EVERY": 1000, "SLEEP_EVERY": 1009}
    run = replay_on_planted_clock("--pass", "time", "--preload", PLANTED, path, **plants)
    calls = mallocs // 1000
    assert run["preempted"] == {"calls": calls, "cycles_total": calls * 20_500, "slept": mallocs // 1009}
    malloc = run["calls"]["malloc"]
    assert malloc["count"] == mallocs
    assert malloc["mean"] == malloc["max"] == 500
    assert malloc["cycles_total"] == 500 * mallocs
    assert run["slowest"][0]["cycles"] == 500


def test_preemption_by_a_neighbour_on_the_same_processor_is_seen(tmp_path):
    """As the kernel reports it, which the planted clock leaves out."""
    path = tmp_path / "few.work"
    made = make(path, ops=60000, threads=1, only_malloc_free=1, live_objects=500)
    processor = min(os.sched_getaffinity(0))
    neighbour = subprocess.Popen(["taskset", "-c", str(processor), "sh", "-c", "while :; do :; done"])
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {processor})
        run = replay("--pass", "time", "--preload", PLANTED, path, SPIN_CYCLES=20000)
    finally:
        os.sched_setaffinity(0, before)
        neighbour.kill()
        neighbour.wait()
    if "preempted_missing_because" in run:
        pytest.skip(run["preempted_missing_because"])
    assert run["preempted"]["calls"] > 0
    assert run["calls"]["malloc"]["count"] == made["calls"]["malloc"]
    timed = sum(count for _, count in run["calls"]["malloc"]["histogram"])
    assert timed + run["preempted"]["calls"] >= made["calls"]["malloc"]
    assert timed < made["calls"]["malloc"]

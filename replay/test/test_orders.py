# SPDX-License-Identifier: MIT
"""The order modes: which are obeyed, which are repeatable, and what they report."""

import pytest

from .test_engine import PLANTED, READING, engine, make, one_error, replay, replay_on_planted_clock


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Threads that free one another's objects."""
    path = tmp_path_factory.mktemp("orders") / "shared.work"
    return path, make(path, ops=10000, threads=6, live_objects=200, remote_percent=50, run_ops=5, gap_ns=20000)


def test_random_order_with_the_same_seed_gives_the_same_memory_and_with_another_seed_does_not(shared):
    path, made = shared
    first, again, other = (
        replay("--pass", "memory", "--order", f"random={seed}", "--preload", PLANTED, path) for seed in (1, 1, 2)
    )
    assert first["timeline"] == again["timeline"]
    assert first["syscalls"] == again["syscalls"]
    assert first["timeline"] != other["timeline"]
    assert first["ops"] == other["ops"] == made["ops"]
    assert first["live_bytes_end"] == other["live_bytes_end"] == made["live_end_bytes"]


@pytest.mark.parametrize(
    ("pass_", "figures"),
    [("memory", ("timeline", "syscalls", "memory_map", "rss_anon_peak_bytes")), ("blame", ("blame",)),
     ("sharing", ("line_sharing",))],
)  # fmt: skip
def test_recorded_order_gives_the_same_figures_twice_to_the_bit(shared, pass_, figures):
    path, _ = shared
    first, again = (replay("--pass", pass_, "--order", "recorded", path) for _ in range(2))
    for key in figures:
        assert first[key] is not None
        assert first[key] == again[key], key


def test_paced_order_takes_as_long_as_the_recording_divided_by_speed(shared):
    """The planted clock advances only by sleeping, so it ends where the last TIME was due: up to 100 µs before the end
    of the recorded 200 ms."""
    path, made = shared
    wall_ns = {}
    for speed in (1, 0.5, 4):
        run = replay_on_planted_clock("--pass", "bare", "--order", f"paced={speed}", "--preload", PLANTED, path)
        assert run["ops"] == made["ops"]
        assert run["pace"]["times"] > 1000
        assert 0 < run["pace"]["sleeps"] <= run["pace"]["times"]
        wall_ns[speed] = run["wall_ns"]
    assert 199_900_000 <= wall_ns[1] <= 200_000_000
    assert wall_ns[0.5] == 2 * wall_ns[1]
    assert wall_ns[4] == wall_ns[1] // 4


def test_paced_order_waits_for_the_real_clock(shared):
    path, made = shared
    run = replay("--pass", "bare", "--order", "paced=1", "--preload", PLANTED, path)
    assert run["ops"] == made["ops"]
    # No op is early; how late they are depends on the machine.
    assert run["wall_ns"] >= 199_900_000
    assert run["pace"]["times"] > 1000


def test_workload_without_times_is_not_paced(tmp_path):
    path = tmp_path / "timeless.work"
    make(path, ops=100)
    assert "has no recorded times" in one_error(engine("--pass", "bare", "--order", "paced", "--null", path))


@pytest.mark.parametrize("order", ["window=256", "causal", "random=3", "recorded"])
def test_a_thousand_threads_free_one_anothers_objects(tmp_path, order):
    path = tmp_path / "thousand.work"
    made = make(path, ops=30000, threads=1000, live_objects=2000, remote_percent=50)
    run = replay("--pass", "bare", "--order", order, "--preload", PLANTED, path)
    assert run["ops"] == made["ops"]
    assert run["waits"]["count"] > 0


def test_waiting_is_reported_by_thread(shared):
    """On the planted clock a wait takes one reading, and these cycles are all that the thread does. Which threads wait
    depends on the machine: one that is off its processor until its next turn does not wait for it.
    """
    path, _ = shared
    waits = replay_on_planted_clock("--pass", "bare", "--order", "recorded", path)["waits"]
    assert waits["count"] > 0
    assert sum(thread["count"] for thread in waits["threads"]) == waits["count"]
    assert waits["cycles"] == READING * waits["count"]
    for thread in waits["threads"]:
        assert thread["cycles"] == READING * thread["count"]
        assert thread["share"] == pytest.approx(thread["count"] / (2 * thread["count"] + 1))
    numbers = [thread["thread"] for thread in waits["threads"]]
    assert len(set(numbers)) == len(numbers)
    assert set(numbers) <= set(range(6))


def test_as_malloc_calls_only_malloc_and_free(shared):
    path, made = shared
    plain = replay("--pass", "time", "--preload", PLANTED, path)
    folded = replay("--pass", "time", "--as-malloc", "--preload", PLANTED, path)
    assert folded["as_malloc"]
    assert set(plain["folded_calls"]) <= {"operator new", "operator new(align)", "operator delete"}
    others = {name: n for name, n in made["calls"].items() if name not in ("malloc", "free", "malloc_usable_size")}
    assert folded["folded_calls"] == others
    assert {name: call["count"] for name, call in folded["calls"].items()} == made["calls"]


def test_threads_stay_on_the_processor_that_they_are_bound_to(shared):
    path, made = shared
    run = replay("--pass", "bare", "--threads-to-cores", "--preload", PLANTED, path)
    assert run["threads_to_cores"]
    assert run["ops"] == made["ops"]

# SPDX-License-Identifier: MIT
"""The arithmetic of predictions, on time lines made by hand."""

import math
import os
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from heaptape.common.home import default_home
from heaptape.results.judged import mean_over_time
from heaptape.results.structs import SLEEPS_TO_TIMES, UNDER_QUOTA, Run
from heaptape.run import replay
from heaptape.run.samples import (
    Samples,
    idle_share,
    mean_by_other_clocks,
    read_samples,
    rss_at,
    samples_at,
    spread_times,
    without_recording,
)
from heaptape.tape.trace import open_trace, times_ns
from heaptape.tape.workload_format import read_workload
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.fidelity.prediction import aligned_mean, replayed
from tests.support import compile_c, record

MS = 1e6


def run_of(*rows: tuple[float, float], **more: float) -> Run:
    """A memory run of a result: rows of position, RssAnon."""
    timeline = [[position, rss, 10 * rss, 0] for position, rss in rows]
    peak = max(rss for _, rss in rows)
    return Run("a", **{"timeline": timeline, "rss_anon_peak_bytes": peak, "vm_size_peak_bytes": 10 * peak} | more)


def test_a_value_stands_until_the_next_row() -> None:
    run = run_of((0, 100), (50, 700), (100, 300))
    assert rss_at(run, np.array([0.0, 49, 50, 99, 100])).tolist() == [100, 100, 700, 700, 300]


def test_a_peak_between_rows_counts() -> None:
    run = run_of((0, 10), (100, 20), rss_anon_peak_bytes=9000, rss_anon_peak_position=55)
    assert rss_at(run, np.array([54.0, 55, 99, 100])).tolist() == [10, 9000, 9000, 20]
    samples = Samples(*[np.array([0.0, 100])] * 3)
    assert replayed(run, samples)["rss_anon_peak_bytes"] == 9000


def test_mean_is_over_time_not_over_samples() -> None:
    assert mean_over_time(np.array([0.0, 90, 100]), np.array([10.0, 110, 0])) == pytest.approx(20)
    assert mean_over_time(np.array([5.0, 5]), np.array([10.0, 30])) == 20


def test_mean_is_over_the_programs_own_processor_time() -> None:
    """It waits for half of the time, while others run, with little memory."""
    times = np.array([0.0, 50, 100]) * MS
    samples = Samples(times, np.array([0.0, 1, 50]) * MS, np.array([0.0, 50, 100]))
    figures = replayed(run_of((0, 100), (50, 1000), (100, 1000)), samples)
    assert figures["rss_anon_wall_mean_bytes"] == pytest.approx(550)
    assert figures["rss_anon_mean_bytes"] == pytest.approx((100 + 49 * 1000) / 50)


def ramp(turning_ns: float) -> Samples:
    """100 ops in 100 ms of processor time, the first 50 by turning_ns."""
    times = np.linspace(0, 100 * MS, 1001)
    line_ns, line_position = np.array([0, turning_ns, 100 * MS]), np.array([0.0, 50, 100])
    return samples_at(times, times, line_ns, line_position, 100)


def test_aligned_mean_does_not_depend_on_how_fast_the_live_run_was() -> None:
    """The same memory at each op: 1 below op 50, 3 from there on. By the recording's clock the shares are 80 to 20."""
    clock, slow, fast = ramp(80 * MS), ramp(80 * MS), ramp(5 * MS)
    own_means = []
    for live in (slow, fast):
        rss = np.where(live.position < 50, 1.0, 3.0)
        assert aligned_mean(live, rss, clock) == pytest.approx(0.8 * 1 + 0.2 * 3, rel=0.02)
        own_means.append(mean_over_time(live.cpu_ns, rss))
    assert own_means == pytest.approx([1.4, 2.9], rel=0.01)


def test_runs_with_more_calls_are_aligned_by_the_share_of_their_calls() -> None:
    times = np.linspace(0, 100 * MS, 1001)
    longer = samples_at(times, times, np.array([0, 100 * MS]), np.array([0.0, 4000]), 4000)
    rss = longer.position / 4000
    assert aligned_mean(longer, rss, ramp(50 * MS)) == pytest.approx(0.5, rel=0.01)


@given(st.lists(st.tuples(*[st.integers(0, 10**9)] * 3), min_size=1, max_size=20))
def test_processor_time_without_recording_never_goes_back_and_is_exact_where_the_costs_are_possible(spans):
    """Of each span: the program's own time, that of its calls' recording (no more than that), and of reading."""
    own, calls, reading = np.array([(one, min(one, more), read) for one, more, read in spans], dtype=float).T
    sums = [np.append(0.0, np.cumsum(part)) for part in (own + calls + reading, calls, reading)]
    assert without_recording(*sums) == pytest.approx(np.append(0.0, np.cumsum(own)))
    assert (np.diff(without_recording(sums[0], 2 * sums[0], 2 * sums[0])) >= 0).all()


def test_time_before_the_first_and_after_the_last_op_counts() -> None:
    """Memory that is held after the last op, for half of the run, in the live program and in the clock's."""
    times = np.linspace(0, 100 * MS, 1001)
    run = samples_at(times, times, np.array([25, 50]) * MS, np.array([0.0, 10]), 10)
    assert (run.position[0], run.position[-1]) == (-1, 11)
    assert np.all(np.diff(run.share) > 0)
    assert (run.share[0], run.share[-1]) == (0, 1)
    rss = np.where(times >= 75 * MS, 8.0, 0.0)
    assert aligned_mean(run, rss, run) == pytest.approx(2, rel=0.01)


def test_calls_that_an_allocator_makes_at_its_start_move_no_point_of_the_program() -> None:
    """Ten ops of 10 ms; the memory is there in the last five. The other run has 14 more ops in its first ms."""
    times = np.linspace(0, 100 * MS, 1001)
    clock = samples_at(times, times, np.linspace(0, 100, 11) * MS, np.arange(11.0), 10)
    line_ns = np.concatenate([np.linspace(0, 0.9, 14) * MS, np.linspace(1, 100, 11) * MS])
    live = samples_at(times, times, line_ns, np.arange(25.0), 24)
    rss = np.where(live.position - 14 >= 5, 4.0, 0.0)
    assert aligned_mean(live, rss, clock) == pytest.approx(2, rel=0.02)


def test_a_recording_idles_where_its_calls_are_rare_for_most_of_the_time() -> None:
    """10,000 calls in 100 ms, then one each 100 ms."""
    times = np.concatenate([np.linspace(0, 100, 100), 100 + 100 * np.arange(1, 10)]) * MS
    position = np.concatenate([np.linspace(0, 10_000, 100), 10_000 + np.arange(1, 10)])
    assert idle_share(times, position) == pytest.approx(0.9, abs=0.06)
    assert idle_share(times, position, 0.1 * times[-1]) == pytest.approx(0.9, abs=0.06)
    assert idle_share(times, position, 0.9 * times[-1]) == pytest.approx(0.1)  # it computes
    assert idle_share(times, position, 3 * times[-1]) == 0  # in four threads
    assert idle_share(times[:100], position[:100]) == 0
    assert np.isnan(idle_share(np.zeros(5), np.arange(5.0)))


def test_the_mean_of_an_idle_recording_is_the_engines_own() -> None:
    """Between two rows of a time line by ops, hours may pass."""
    times = np.array([0.0, 10, 1000]) * MS
    samples = Samples(times, np.array([0.0, 9, 10]) * MS, np.array([0.0, 99, 100]))
    run = run_of((0, 1000), (100, 10), rss_anon_wall_mean_bytes=17)
    assert replayed(run, samples)["rss_anon_wall_mean_bytes"] == 17


def test_samples_at_one_position_were_taken_while_the_program_idled_before_it() -> None:
    line = pd.DataFrame({"position": [0, 100, 200], "time_ns": [0.0, 1000, 9000]})
    times = spread_times(np.array([0.0, 100, 200, 200, 200, 200]), line)
    assert times.tolist() == [0, 1000, 3000, 5000, 7000, 9000]
    unknown = line.assign(time_ns=0)
    assert spread_times(np.array([0.0, 100]), unknown).tolist() == [0, 100]


IDLES_OR_WORKS = """#define _GNU_SOURCE
    #include <sched.h>
    #include <stdlib.h>
    #include <time.h>
    static void work(int ms) { for (long end = clock() + ms * (CLOCKS_PER_SEC / 1000); clock() < end;) ; }
    int main(int argc, char **argv) {
      cpu_set_t one;
      int cpu = atoi(argv[2]);
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      if (sched_setaffinity(0, sizeof one, &one)) return 1;
      for (int i = 0; i < 1000; i++) free(malloc(100 + i));
      if (argv[1][0] == 'w') work(300);
      if (argv[1][0] == 's') nanosleep(&(struct timespec){0, 600000000}, 0);
      for (int turn = 0; argv[1][0] == 'c' && turn < 10; turn++) {
        work(3);
        for (int i = 0; i < 500; i++) free(malloc(100 + i));
        nanosleep(&(struct timespec){0, 60000000}, 0);
      }
      free(malloc(9));
    }"""


@pytest.mark.parametrize(("name", "idles"), [("sleeps", True), ("chatters and sleeps", True), ("works", False)])
@pytest.mark.parametrize("others", [0, 4])
def test_a_program_idles_where_it_sleeps_not_where_it_waits_for_a_processor(tmp_path, name, idles, others):
    """`others` work on the only processor that the program may use: it then gets a fifth of it."""
    program, cpu = compile_c(tmp_path / "program", IDLES_OR_WORKS), max(os.sched_getaffinity(0))
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(others)]
    try:
        for one in busy:
            os.sched_setaffinity(one.pid, {cpu})
        record(tmp_path / "F.tape", program, name, str(cpu))
    finally:
        for one in busy:
            one.kill()
            one.wait()
    work = replay.prepare(str(tmp_path / "F.tape"), default_home(), tmp_path)
    assert (replay.describe_workload(work, "")["idle_percent"] > 50) == idles


WAITS_FOR_ITS_RECORDER = """#include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    static char state(const char *path) {
      char text[64] = "", found = 0;
      FILE *file = fopen(path, "r");
      if (file && fgets(text, sizeof text, file)) sscanf(text, "%*d (%*[^)]) %c", &found);
      if (file) fclose(file);
      return found;
    }
    int main(void) {
      char path[64];
      pid_t recorder = getppid();
      snprintf(path, sizeof path, "/proc/%d/stat", getpid());
      for (int i = 0; i < 1000; i++) free(malloc(100 + i));
      kill(recorder, SIGSTOP);
      if (fork() == 0) { /* lets the recorder go on when its program has slept for 300 ms */
        for (int asleep = 0; asleep < 30; asleep += state(path) == 'S') usleep(10000);
        kill(recorder, SIGCONT);
        _exit(0);
      }
      for (int i = 0; i < 200000; i++) free(malloc(100));
    }"""


def test_a_burst_that_took_longer_shortened_the_sleep_behind_it_if_that_ends_at_a_set_time() -> None:
    """Twice a burst of 100 ms with 30 MiB, recorded as 300 ms; then 100 ms of sleep with 3 MiB, where 300 were slept in
    the bare run: half of the recorded 800 ms is memory of neither.
    """
    spans = [(300, 200, 0), (100, 0, 100)] * 2
    clock = np.cumsum([(0.0, 0, 0), *spans], axis=0) * MS
    parts = {"from_ns": 0, "ns": 400 * MS, "rss_anon_bytes": [30, 3, 30, 3]}
    found = mean_by_other_clocks(parts, clock, throttled=False)
    assert found == {SLEEPS_TO_TIMES: pytest.approx((2 * 100 * 30 + 2 * 300 * 3) / 800)}
    held = mean_by_other_clocks(parts, clock, throttled=True)
    assert held[UNDER_QUOTA] == pytest.approx((2 * 300 * 30 + 2 * 100 * 3) / 800)


def test_a_program_that_hardly_sleeps_has_one_clock() -> None:
    clock = np.cumsum([(0.0, 0, 0), (300, 200, 0), (10, 0, 9), (300, 200, 0)], axis=0) * MS
    parts = {"from_ns": 0, "ns": 210 * MS, "rss_anon_bytes": [1] * 21}
    assert mean_by_other_clocks(parts, clock, throttled=False) == {}


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=30))
def test_time_that_was_taken_is_given_to_sleeps_or_to_none(spans: list[tuple[float, float, float]]) -> None:
    """Spans of 20 ms of which a share slept, and of the rest a share was taken; bytes of each part."""
    rows = [(20.0, 20 * (1 - slept) * taken, 20 * slept) for slept, taken, _ in spans]
    clock = np.cumsum([(0.0, 0, 0), *rows], axis=0) * MS
    rss = [bytes_ for *_, bytes_ in spans]
    for mean in mean_by_other_clocks({"from_ns": 0, "ns": 20 * MS, "rss_anon_bytes": rss}, clock, True).values():
        assert min(rss) - 1e-9 <= mean <= max(rss) + 1e-9


def test_program_time_is_without_waits_for_the_recorder(tmp_path: Path) -> None:
    program, tape = compile_c(tmp_path / "program", WAITS_FOR_ITS_RECORDER), tmp_path / "F.tape"
    record(tape, program)
    work = replay.prepare(str(tape), default_home(), tmp_path)
    workload = read_workload(work)
    end_ns = workload.timeline()["time_ns"].iloc[-1]
    with open_trace(tape) as trace:
        recorded_ns = max(
            times_ns(trace, trace.samples()["stamp"].to_numpy(np.uint64)[-1:])[0],
            *times_ns(trace, np.array([trace.last_stamp], np.uint64)),
        )
    clock = workload.program_clock
    assert clock is not None
    taken_ns = clock[-1, 1]
    assert taken_ns > 250 * MS
    assert end_ns == pytest.approx(recorded_ns - taken_ns, abs=100)
    samples, _ = read_samples(tape, work)
    assert samples.time_ns[-1] <= end_ns + 100


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("last", [[0, 0, 0], [1e305, 1e305, 1e305], [1e7, 1e305, 1e7], [-5, 3, 1e300]])
def test_a_clock_of_any_numbers_gives_no_mean_that_is_none(last: list[float]) -> None:
    parts = {"from_ns": 0, "ns": 20 * MS, "rss_anon_bytes": [1e6, 2e6]}
    found = mean_by_other_clocks(parts, np.array([[0.0, 0, 0], last]), throttled=True)
    assert all(math.isfinite(mean) for mean in found.values())

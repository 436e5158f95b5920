# SPDX-License-Identifier: MIT
"""The clocks of predictions, whatever they read, and of real recordings. By hand: samples.examples."""

import math
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from heaptape.common.home import default_home
from heaptape.results.structs import Run
from heaptape.run import replay
from heaptape.run.samples import (
    Samples,
    mean_by_other_clocks,
    read_samples,
    samples_at,
    without_recording,
)
from heaptape.tape.trace import open_trace, times_ns
from heaptape.tape.workload_format import read_workload
from hypothesis import given
from hypothesis import strategies as st

from tests.support import compile_c, record

MS = 1e6


def run_of(*rows: tuple[float, float], **more: float) -> Run:
    """A memory run of a result: rows of position, RssAnon."""
    timeline = [[position, rss, 10 * rss, 0] for position, rss in rows]
    peak = max(rss for _, rss in rows)
    return Run("a", **{"timeline": timeline, "rss_anon_peak_bytes": peak, "vm_size_peak_bytes": 10 * peak} | more)


def ramp(turning_ns: float) -> Samples:
    """100 ops in 100 ms of processor time, the first 50 by turning_ns."""
    times = np.linspace(0, 100 * MS, 1001)
    line_ns, line_position = np.array([0, turning_ns, 100 * MS]), np.array([0.0, 50, 100])
    return samples_at(times, times, line_ns, line_position, 100)


@given(st.lists(st.tuples(*[st.integers(0, 10**9)] * 3), min_size=1, max_size=20))
def test_processor_time_without_recording_never_goes_back_and_is_exact_where_the_costs_are_possible(spans):
    """Of each span: the program's own time, that of its calls' recording (no more than that), and of reading."""
    own, calls, reading = np.array([(one, min(one, more), read) for one, more, read in spans], dtype=float).T
    sums = [np.append(0.0, np.cumsum(part)) for part in (own + calls + reading, calls, reading)]
    assert without_recording(*sums) == pytest.approx(np.append(0.0, np.cumsum(own)))
    assert (np.diff(without_recording(sums[0], 2 * sums[0], 2 * sums[0])) >= 0).all()


IDLES_OR_WORKS = """
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


WAITS_FOR_ITS_RECORDER = """
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

# SPDX-License-Identifier: MIT
"""Storms of remote frees with forks and kills: each process's trace is complete and legal, however the process ended.

HEAPTAPE_STORMS is the number of storms (`make stress`: 100).
Long: chance decides what each storm meets. Cases that are known to matter have separate tests in capture/test/.
"""

import contextlib
import os
import random
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

from tests.support import OUT, RECORD, assert_clean, info

pytestmark = pytest.mark.long

STORMS = int(os.environ.get("HEAPTAPE_STORMS", "8"))
PROGRAM = OUT / "test-programs" / "fork_storm"
PROCESSES = 64
ENTRY = struct.Struct("<5Q")

# calls of posix_memalign, reallocarray, free that have returned; have all threads ended?
Done = tuple[int, int, int, bool]


def processes(counts: Path) -> dict[int, Done]:
    """The finished calls of each process, by pid."""
    data = counts.read_bytes()
    entries = (ENTRY.unpack_from(data, at * ENTRY.size) for at in range(PROCESSES))
    return {pid: (memaligns, reallocs, frees, bool(end)) for pid, memaligns, reallocs, frees, end in entries if pid}


def kill_after(counts: Path, delay_s: float) -> None:
    """SIGKILL for the first process, if it has not ended by then."""
    deadline = time.monotonic() + 120
    while not counts.exists() or len(counts.read_bytes()) < ENTRY.size or not processes(counts):
        assert time.monotonic() < deadline, "the program did not begin"
        time.sleep(0.001)
    time.sleep(delay_s)
    pid = next(iter(processes(counts)))
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def assert_complete(tape: Path, done: Done, threads: int) -> None:
    """The trace has at least the calls that had returned, and at most one more for each thread."""
    calls = info(tape)["calls"]
    memaligns, reallocs, frees, finished = done
    in_flight = 0 if finished else threads
    assert memaligns <= calls.get("posix_memalign", 0) <= memaligns + in_flight
    assert reallocs <= calls.get("reallocarray", 0) <= reallocs + in_flight
    assert frees <= calls.get("free", 0)


@pytest.mark.parametrize("seed", range(STORMS))
def test_each_process_of_a_storm_is_recorded_completely(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    threads = chance.choice((1, 2, 4, 8))
    options = ("--stamp", chance.choice(("tags", "tags", "every")))
    kill = chance.random() < 0.5
    counts = tmp_path / "counts"
    storm = (PROGRAM, counts, seed + 1, threads, 80000 // threads, chance.choice((0, 2, 6)))
    command = (RECORD, "-o", tmp_path / "t.tape", *options, "--", *storm)
    with subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE) as recorder:
        if kill:
            kill_after(counts, delay_s=chance.uniform(0, 0.2))
        assert recorder.wait(120) in (0, 128 + signal.SIGKILL)
    done = processes(counts)
    tapes = {info(tape)["info"]["pid"]: tape for tape in tmp_path.glob("*.tape")}
    assert tapes.keys() == done.keys()
    for pid, tape in tapes.items():
        assert_clean(tape)
        assert_complete(tape, done[pid], threads)

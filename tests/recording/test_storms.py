# SPDX-License-Identifier: MIT
"""SIGKILL loses nothing; storms of remote frees and of forks always have a legal and complete history.

tests/model/ proves the order of the scheme itself for small cases; this is the real recorder on the real machine, under
allocators that hand addresses out again in different ways.
HEAPTAPE_STORMS is the number of storms of forks (`make stress`: 100).
Long: further moments at which to kill; each storm is one more chance to meet a rare order. Cases that are known to
matter have separate tests in capture/test/.
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

from tests.support import OUT, RECORD, assert_clean, info, record, system_library, workload

FEW_KILLS, KILLS = 4, 20
SEEDS = [*range(FEW_KILLS), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(FEW_KILLS, KILLS))]
STORMS = int(os.environ.get("HEAPTAPE_STORMS", "8"))
FORK_STORM = OUT / "test-programs" / "fork_storm"
UNTIL_KILLED = 2**31 - 1  # rounds
ENTRY = struct.Struct("<5Q")

# calls of posix_memalign, reallocarray, free that have returned; have all threads ended?
Done = tuple[int, int, int, bool]


def processes(counts: Path) -> dict[int, Done]:
    """The finished calls of each process, by pid."""
    data = counts.read_bytes()
    entries = (ENTRY.unpack_from(data, at * ENTRY.size) for at in range(len(data) // ENTRY.size))
    return {pid: (memaligns, reallocs, frees, bool(end)) for pid, memaligns, reallocs, frees, end in entries if pid}


def kill_after(counts: Path, delay_s: float) -> None:
    """SIGKILL for the first process, once a call has returned, if it has not ended by then."""
    deadline = time.monotonic() + 120
    while not (counts.exists() and any(done[2] for done in processes(counts).values())):
        assert time.monotonic() < deadline, "the program did not begin"
        time.sleep(0.001)
    time.sleep(delay_s)
    pid = next(iter(processes(counts)))
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def record_storm(folder: Path, chance: random.Random, arguments: tuple[int, ...], delay_s: float | None) -> int:
    """The recorder's status. `arguments`: of fork_storm; `delay_s`: when the storm is killed; None: not at all."""
    options = ("--stamp", chance.choice(("tags", "tags", "every")))
    storm = (FORK_STORM, folder / "counts", *arguments)
    command = (RECORD, "--all-processes", "-o", folder / "t.tape", *options, "--", *storm)
    with subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE) as recorder:
        if delay_s is not None:
            kill_after(folder / "counts", delay_s)
        return recorder.wait(120)


def assert_complete(tape: Path, done: Done, threads: int) -> None:
    """The trace has at least the calls that had returned, and at most one more for each thread."""
    calls = info(tape)["calls"]
    memaligns, reallocs, frees, finished = done
    in_flight = 0 if finished else threads
    assert memaligns <= calls.get("posix_memalign", 0) <= memaligns + in_flight
    assert reallocs <= calls.get("reallocarray", 0) <= reallocs + in_flight
    assert frees <= calls.get("free", 0)


def assert_each_process_is_complete(folder: Path, threads: int) -> None:
    """The folder has one trace of each process of a storm, and nothing is missing in it."""
    done = processes(folder / "counts")
    tapes = {info(tape)["info"]["pid"]: tape for tape in folder.glob("*.tape")}
    assert tapes.keys() == done.keys()
    for pid, tape in tapes.items():
        assert_clean(tape)
        assert_complete(tape, done[pid], threads)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_call_that_returned_before_sigkill_is_in_the_trace(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    threads = chance.choice((1, 2, 4, 8))
    arguments = (seed + 1, threads, UNTIL_KILLED, 0)
    assert record_storm(tmp_path, chance, arguments, chance.uniform(0, 0.1)) == 128 + signal.SIGKILL
    assert info(tmp_path / "t.tape")["footer"]["end"] == "killed"
    assert_each_process_is_complete(tmp_path, threads)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(STORMS))
def test_each_process_of_a_storm_is_recorded_completely(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    threads = chance.choice((1, 2, 4, 8))
    arguments = (seed + 1, threads, 80000 // threads, chance.choice((0, 2, 6)))
    delay_s = chance.uniform(0, 0.2) if chance.random() < 0.5 else None
    assert record_storm(tmp_path, chance, arguments, delay_s) in (0, 128 + signal.SIGKILL)
    assert_each_process_is_complete(tmp_path, threads)


ALLOCATORS = {
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "mimalloc": "libmimalloc.so.2.0",
    "tbbmalloc": "libtbbmalloc_proxy.so.2",
}


def remote_storm(seed: int, rounds: int) -> tuple[str | Path, ...]:
    chance = random.Random(seed)
    return (
        workload("remote_storm"),
        f"--threads={chance.choice((2, 3, 4, 8, 16))}",
        f"--slots={chance.choice((1, 2, 8, 64, 1000))}",
        f"--highest={chance.choice((24, 256, 5000))}",
        f"--rounds={rounds}",
        f"--seed={seed}",
        "--quiet=1",
    )


@pytest.mark.long
@pytest.mark.parametrize("stamp", ["tags", "every"])
@pytest.mark.parametrize("seed", range(12))
def test_storm_is_recorded_as_a_legal_history(tmp_path: Path, seed: int, stamp: str) -> None:
    tape = tmp_path / "t.tape"
    record(tape, *remote_storm(seed, rounds=20000), options=("--stamp", stamp))
    assert assert_clean(tape)["events"] > 20000


@pytest.mark.long
@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_storm_under_another_allocator_is_recorded_as_a_legal_history(tmp_path: Path, allocator: str) -> None:
    library = system_library(ALLOCATORS[allocator])
    for seed in range(3):
        tape = tmp_path / f"{seed}.tape"
        record(tape, *remote_storm(seed, rounds=20000), options=("--preload", library))
        assert_clean(tape)

# SPDX-License-Identifier: MIT
"""SIGKILL loses nothing: every call that had returned before the kill is in the trace.

Long: 16 more moments at which to kill.
"""

import os
import random
import signal
import struct
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support import OUT, RECORD, assert_clean, info

FEW_KILLS, KILLS = 4, 20
SEEDS = [*range(FEW_KILLS), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(FEW_KILLS, KILLS))]
PROGRAM = OUT / "test-programs" / "call_until_killed"
CALLS = ("posix_memalign", "reallocarray", "free")


def returned_calls(shared: Path, threads: int) -> tuple[int, Counter[str]]:
    """The program's pid and its calls that have returned, by name; pid 0: it has not begun."""
    data = shared.read_bytes() if shared.exists() else b""
    if len(data) < 8 + 32 * threads:
        return 0, Counter()
    calls: Counter[str] = Counter()
    for thread in range(threads):
        calls.update(dict(zip(CALLS, struct.unpack_from("<3Q", data, 8 + 32 * thread))))
    return struct.unpack_from("<Q", data)[0], calls


def kill_in_full_swing(shared: Path, threads: int, delay_s: float) -> None:
    deadline = time.monotonic() + 120
    while not returned_calls(shared, threads)[1]["free"]:
        assert time.monotonic() < deadline, "the program did not begin"
        time.sleep(0.001)
    time.sleep(delay_s)
    os.kill(returned_calls(shared, threads)[0], signal.SIGKILL)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_call_that_returned_before_sigkill_is_in_the_trace(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    threads = chance.choice((1, 2, 4, 8))
    options = ("--stamp", chance.choice(("tags", "every")))
    shared, tape = tmp_path / "shared", tmp_path / "t.tape"
    command = (RECORD, "-o", tape, *options, "--", PROGRAM, shared, threads)
    with subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE) as recorder:
        kill_in_full_swing(shared, threads, delay_s=chance.uniform(0, 0.1))
        assert recorder.wait(120) == 128 + signal.SIGKILL
    returned = returned_calls(shared, threads)[1]
    assert_clean(tape)
    about = info(tape)
    assert about["footer"]["end"] == "killed"
    for call in ("posix_memalign", "reallocarray"):
        assert returned[call] <= about["calls"][call] <= returned[call] + threads
    assert returned["free"] <= about["calls"]["free"]

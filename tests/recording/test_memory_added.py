# SPDX-License-Identifier: MIT
"""What recording adds to the host's resident memory: a fixed part, and little for each thread."""

import statistics
from pathlib import Path

import pytest

from tests.support import OUT, record, succeed

PROGRAM = OUT / "test-programs" / "memory_of_threads"
FIXED_KIB, IDLE_KIB, BUSY_KIB = 4096, 64, 1024


def added_kib(tape: Path, idle: int, busy: int) -> float:
    """Resident memory recorded less bare, each the median of five: how many OS pages of its libraries the kernel maps
    around a fault differs by hundreds of KiB from run to run.
    """
    command = (PROGRAM, str(idle), str(busy))
    bare = statistics.median(int(succeed(*command).stdout) for _ in range(5))
    recorded = statistics.median(int(record(tape, *command).stdout) for _ in range(5))
    return recorded - bare


def test_the_fixed_part_is_at_most_4_mib(tmp_path: Path) -> None:
    kib = added_kib(tmp_path / "t.tape", 0, 0)
    print(f"fixed: {kib} KiB")
    assert kib <= FIXED_KIB


@pytest.mark.parametrize("threads", [15, 200])
def test_an_idle_thread_costs_at_most_64_kib(tmp_path: Path, threads: int) -> None:
    kib = (added_kib(tmp_path / "t.tape", threads, 0) - added_kib(tmp_path / "t.tape", 0, 0)) / threads
    print(f"each of {threads} idle threads: {kib:.0f} KiB")
    assert kib <= IDLE_KIB


def test_a_busy_thread_costs_at_most_1_mib(tmp_path: Path) -> None:
    threads = 8
    kib = (added_kib(tmp_path / "t.tape", 0, threads) - added_kib(tmp_path / "t.tape", 0, 0)) / threads
    print(f"each of {threads} busy threads: {kib:.0f} KiB")
    assert 64 < kib <= BUSY_KIB

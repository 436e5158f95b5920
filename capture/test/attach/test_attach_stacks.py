# SPDX-License-Identifier: MIT
"""Attaching leaves the stacks of the process alone: small ones, and those on which a call of ours has yet to return."""

import os
import select
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from capture.test.attach.attached import HANG_S, SOURCES, Attached, calls_of, requests
from tests.support import check, compile_c


@contextmanager
def started(*command: str | Path) -> Iterator[subprocess.Popen]:
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield program
    finally:
        program.kill()
        program.wait()


def answer(program: subprocess.Popen) -> None:
    assert program.stdout
    assert select.select([program.stdout], [], [], HANG_S)[0], "the program stands still"
    assert os.read(program.stdout.fileno(), 1) == b"\n"


def obey(program: subprocess.Popen, command: bytes) -> None:
    assert program.stdin
    program.stdin.write(command)
    program.stdin.flush()
    answer(program)


def end(program: subprocess.Popen) -> int:
    assert program.stdin
    program.stdin.close()
    return program.wait(timeout=HANG_S)


@pytest.mark.parametrize("options", [(), ("--stacks", "--latency", "--usable")], ids=len)
def test_a_program_that_calls_on_small_stacks_of_fibers_only_is_attached_to_unharmed(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    with started(compile_c(tmp_path / "fibers", SOURCES / "fibers.c", "-O1")) as program:
        answer(program)
        for number in range(2):
            Attached(program.pid, tmp_path / f"{number}.tape", *options).stop_when_it_holds(4096)
        assert end(program) == 0
    for number in range(2):
        assert check(tmp_path / f"{number}.tape")["ok"]
        assert calls_of(requests(tmp_path / f"{number}.tape"), "malloc", 100) > 0


def test_memory_is_kept_for_a_thread_that_sleeps_in_a_real_function_while_another_recording_begins(
    tmp_path: Path,
) -> None:
    allocator = compile_c(tmp_path / "libsleeps.so", SOURCES / "sleeper.c", "-DALLOCATOR", "-shared", "-fPIC")
    command = compile_c(tmp_path / "sleeper", SOURCES / "sleeper.c", "-pthread", allocator)
    with started(command) as program, ThreadPoolExecutor() as other:
        for number in range(2):
            attaching = other.submit(Attached, program.pid, tmp_path / f"{number}.tape", "--latency")
            while not attaching.done():
                obey(program, b"c")
            obey(program, b"c")
            if number == 0:
                obey(program, b"b")
                attaching.result().stop()
        obey(program, b"w")
        attaching.result().stop()
        assert end(program) == 0

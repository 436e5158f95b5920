# SPDX-License-Identifier: MIT
"""Attaching leaves the stacks of the process alone: small ones, and those on which a call of ours has yet to return."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from capture.test.attach.attached import SOURCES, Attached, calls_of, requests
from capture.test.driven import Commanded
from tests.support import check, compile_c


@pytest.mark.parametrize("options", [(), ("--stacks", "--latency", "--usable")], ids=len)
def test_a_program_that_calls_on_small_stacks_of_fibers_only_is_attached_to_unharmed(options, tmp_path):
    with Commanded(compile_c(tmp_path / "fibers", SOURCES / "fibers.c", "-O1")) as program:
        program.answer()
        for number in range(2):
            Attached(program.pid, tmp_path / f"{number}.tape", *options).stop_when_it_holds(4096)
        assert program.end() == 0
    for number in range(2):
        assert check(tmp_path / f"{number}.tape")["ok"]
        assert calls_of(requests(tmp_path / f"{number}.tape"), "malloc", 100) > 0


def rings_of(pid: int) -> set[str]:
    """By the numbers of their files: one of each recording whose memory is still mapped."""
    lines = map(str.split, Path(f"/proc/{pid}/maps").read_text().splitlines())
    return {words[4] for words in lines if words[5:6] == ["/memfd:heaptape"]}


def end_a_recording_and_begin_another(program: Commanded, folder: Path, *options: str) -> int:
    """While threads of the program, which it starts in between, have yet to return to a hook. Its exit status."""
    with ThreadPoolExecutor() as other:
        for number in range(2):
            attaching = other.submit(Attached, program.pid, folder / f"{number}.tape", *options)
            while not attaching.done():
                program.obey("c")
            program.obey("c")
            if number == 0:
                recorder = attaching.result()
                recorder.process.send_signal(signal.SIGSTOP)  # calls are short as long as it does nothing
                program.obey("b")
                recorder.process.send_signal(signal.SIGCONT)
                recorder.stop()
        second = attaching.result()
        assert len(rings_of(program.pid)) == 2
        program.obey("w")
        second.stop()
        return program.end()


@pytest.mark.parametrize("handler", [(), ("handler",)], ids=["it", "a handler on another stack"])
def test_memory_is_kept_for_a_thread_that_sleeps_in_a_real_function_while_another_recording_begins(handler, tmp_path):
    allocator = compile_c(tmp_path / "libsleeps.so", SOURCES / "sleeper.c", "-DALLOCATOR", "-shared", "-fPIC")
    command = compile_c(tmp_path / "sleeper", SOURCES / "sleeper.c", "-pthread", allocator)
    with Commanded(command, *handler) as program:
        assert end_a_recording_and_begin_another(program, tmp_path, "--latency") == 0


def test_memory_is_kept_for_threads_that_a_handler_has_interrupted_in_a_hook_while_another_recording_begins(tmp_path):
    with Commanded(compile_c(tmp_path / "stepper", SOURCES / "stepper.c", "-pthread")) as program:
        assert end_a_recording_and_begin_another(program, tmp_path) == 0

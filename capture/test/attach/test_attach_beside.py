# SPDX-License-Identifier: MIT
"""Attaching beside fork children, other recorders, a main thread that ends, budgets and rotating files."""

import os
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from capture.test.attach.attached import HANG_S, SOURCES, Attached, Worker, calls_of, requests, wait_until
from capture.test.attach.test_attach import programs, redirected_references, worker
from tests.support import CONVERT, RECORD, check, compile_c, info, succeed

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="attaching is for x86-64 only")

__all__ = ["programs", "worker"]  # fixtures

NOBODY = 65534


def children_of(pid: int, thread: int | str = "") -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{thread or pid}/children").read_text().split()))


def load_library(program: Worker, folder: Path) -> None:
    """Loads it by a first recording, so that the next one begins without a call."""
    with ThreadPoolExecutor() as other:
        attaching = other.submit(Attached, program.pid, folder / "first.tape")
        while not attaching.done():
            program.obey("c")
    program.obey("c")
    attaching.result().stop()


def test_a_fork_child_that_calls_first_neither_takes_the_name_nor_ends_the_recording(
    worker: Callable[..., Worker], tmp_path: Path
) -> None:
    program = worker(0)
    load_library(program, tmp_path)
    attached = Attached(program.pid, tmp_path / "t.tape")
    for _ in range(3):
        program.obey("f")
    program.obey("c")
    attached.stop()
    assert calls_of(requests(attached.trace), "malloc", 4242) == 10_000
    children = list(tmp_path.glob("t.*.tape"))
    assert [calls_of(requests(path), "malloc", 3131) for path in children] == [500] * 3


def test_a_main_thread_that_has_ended_hinders_nothing(worker: Callable[..., Worker], tmp_path: Path) -> None:
    program = worker(1)
    attached = Attached(program.pid, tmp_path / "t.tape")
    program.obey("e")
    state = Path(f"/proc/{program.pid}/stat")
    wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "Z")
    program.obey("c")
    output = attached.stop()
    assert "everything is put back" in output
    assert "can't be read" not in output
    assert calls_of(requests(attached.trace), "malloc", 4242) == 10_000
    tids = [int(path.name) for path in Path(f"/proc/{program.pid}/task").iterdir()]
    living = [tid for tid in tids if tid != program.pid]
    assert redirected_references(f"{program.pid}/task/{living[0]}") == 0
    assert program.end() == 0


def test_the_end_of_a_recording_leaves_that_of_a_fork_child_by_another_recorder_alone(
    worker: Callable[..., Worker], tmp_path: Path
) -> None:
    program = worker(1)
    load_library(program, tmp_path)
    program.obey("F")
    (child,) = children_of(program.pid)
    of_child = Attached(child, tmp_path / "child.tape")
    of_parent = Attached(program.pid, tmp_path / "parent.tape")
    program.obey("c")
    before = redirected_references(child)
    output = of_parent.stop()
    assert "fork children" not in output
    assert redirected_references(child) == before > 0
    assert of_child.process.poll() is None
    of_child.stop()
    assert check(of_child.trace)["ok"]
    assert redirected_references(child) == 0


@pytest.mark.skipif(os.getuid() != 0, reason="records another user's process, which root alone may")
def test_a_process_that_root_records_is_refused_to_its_user(programs: tuple[Path, Path], tmp_path: Path) -> None:
    def as_nobody() -> None:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)

    for folder in (programs[0].parent, *programs[0].parents, tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o55 != 0o55 and folder.is_relative_to("/tmp"):
            folder.chmod(0o755)
    place = tmp_path / "nobody"
    place.mkdir()
    place.chmod(0o777)
    program = subprocess.Popen(
        [programs[0], "1", programs[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=as_nobody
    )
    try:
        attached = Attached(program.pid, tmp_path / "t.tape")
        again = subprocess.run(
            [RECORD, "--attach", str(program.pid), "-o", place / "t.tape"],
            preexec_fn=as_nobody,
            capture_output=True,
            text=True,
            timeout=HANG_S,
        )
        assert again.returncode == 1
        assert "is being recorded already" in again.stderr
        attached.process.send_signal(signal.SIGINT)
        attached.process.communicate(timeout=HANG_S)
    finally:
        program.kill()
        program.wait()


def test_a_thread_that_sleeps_in_the_kernel_is_waited_for(worker: Callable[..., Worker], tmp_path: Path) -> None:
    program = worker(1)
    load_library(program, tmp_path)
    program.obey("v")
    wait_until(lambda: any(children_of(program.pid, path.name) for path in Path(f"/proc/{program.pid}/task").iterdir()))
    attached = Attached(program.pid, tmp_path / "t.tape")
    program.obey("c")
    attached.stop()
    assert calls_of(requests(attached.trace), "malloc", 4242) == 10_000
    assert program.end() == 0


def test_an_object_that_names_hundreds_of_others_is_recorded_too(tmp_path: Path) -> None:
    named = [f"-Wl,-f,libnone{number}.so" for number in range(300)]  # the dynamic linker does without them
    plugin = compile_c(tmp_path / "plugin.so", SOURCES / "plugin.c", "-shared", "-fPIC", *named)
    linked = ("-O1", "-pthread", "-Wl,--no-as-needed", str(plugin))
    program = Worker((compile_c(tmp_path / "worker", SOURCES / "worker.c", *linked), plugin), 1)
    attached = Attached(program.pid, tmp_path / "t.tape")
    program.obey("l")
    attached.stop()
    assert calls_of(requests(attached.trace), "malloc", 7777) >= 1000
    assert program.end() == 0


def test_files_rotate_and_merge_into_all_calls(worker: Callable[..., Worker], tmp_path: Path) -> None:
    program = worker(2)
    attached = Attached(program.pid, tmp_path / "t.tape", "--rotate", "64K")
    program.obey("c")
    while not (tmp_path / "t.0003.tape").exists():
        program.obey("c")
    program.obey("c")
    attached.stop()
    files = sorted(tmp_path.glob("*.tape"))
    assert [path.name for path in files] == [f"t.{number:04}.tape" for number in range(1, len(files) + 1)]
    assert all(check(path)["ok"] for path in files)
    succeed(CONVERT, "convert", "--merge", *files, tmp_path / "whole.tape")
    assert check(tmp_path / "whole.tape")["ok"]
    counts = [calls_of(requests(path), "malloc", 4242) for path in files]
    assert calls_of(requests(tmp_path / "whole.tape"), "malloc", 4242) == sum(counts)
    assert sum(counts) % 10_000 == 0
    assert program.end() == 0


def test_old_files_are_deleted_and_reported(worker: Callable[..., Worker], tmp_path: Path) -> None:
    program = worker(2)
    attached = Attached(program.pid, tmp_path / "t.tape", "--rotate", "64K", "--keep", "1")
    while not (tmp_path / "t.0004.tape").exists():
        program.obey("c")
    assert "were deleted (--keep)" in attached.stop()
    assert len(list(tmp_path.glob("*.tape"))) == 2


def test_a_budget_holds_and_calls_between_bursts_are_counted(worker: Callable[..., Worker], tmp_path: Path) -> None:
    program = worker(0)
    load_library(program, tmp_path)
    attached = Attached(program.pid, tmp_path / "t.tape", "--budget", "0.01%")
    for _ in range(20):
        program.obey("c")
    output = attached.stop()
    assert "of the program's CPU time, of 0.01 % allowed" in output
    about = info(attached.trace)
    assert about["events"] + about["dropped"] == 20 * 20_000
    assert program.end() == 0


@pytest.mark.parametrize("options", [("--rotate", "64K"), ()])
def test_quiet_is_quiet(worker: Callable[..., Worker], tmp_path: Path, options: tuple[str, ...]) -> None:
    program = worker(1)
    attached = subprocess.Popen(
        [RECORD, "--attach", str(program.pid), "-o", tmp_path / "t.tape", "--quiet", "--duration", "0.2", *options],
        stderr=subprocess.PIPE,
        text=True,
    )
    output = attached.communicate(timeout=HANG_S)[1]
    assert [line for line in output.splitlines() if "--duration is over" not in line] == []

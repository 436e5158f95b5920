# SPDX-License-Identifier: MIT
"""heaptape.common: forked processes, where files of an installation or a checkout are, temporary folders."""

import errno
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from heaptape.common import home, process
from heaptape.common.errors import FormatError, HeaptapeError
from heaptape.common.process import processes, scratch_folder, send_signal


@pytest.fixture(autouse=True)
def three_processors(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})


def test_pieces_come_in_their_order_from_other_processes_and_none_is_left():
    made = list(process.in_order(lambda n: (n, os.getpid()), 7))
    assert [n for n, _ in made] == list(range(7))
    assert len({pid for _, pid in made} - {os.getpid()}) == 3
    assert multiprocessing.active_children() == []


def test_an_error_is_raised_complete_in_its_place_and_other_processes_are_stopped():
    def work(n: int) -> int:
        if n == 1:
            raise FormatError("r.json", 7, "cut off")
        if n == 2:
            signal.pause()
        return n

    made = process.in_order(work, 3)
    assert next(made) == 0
    with pytest.raises(FormatError, match="r.json: offset 7: cut off") as raised:
        next(made)
    assert (raised.value.path, raised.value.offset) == ("r.json", 7)
    assert multiprocessing.active_children() == []


def test_a_lost_process_is_one_clear_error():
    with pytest.raises(HeaptapeError, match="a worker process was killed"):
        list(process.in_order(lambda n: os.kill(os.getpid(), signal.SIGKILL), 3))
    assert multiprocessing.active_children() == []


SHOW = """
from heaptape.common.home import SHARED, default_home
home = default_home()
for path in (SHARED, home.program("record"), home.registry_file(), *home.command()): print(path)
"""


@pytest.mark.parametrize(
    ("package", "prefix"), [("lib/heaptape/heaptape", "."), ("site-packages/heaptape", "site-packages/heaptape/prefix")]
)
def test_installed_files_are_found_by_the_package(package, prefix, tmp_path):
    shutil.copytree(home.PACKAGE / "common", tmp_path / package / "common")
    (tmp_path / package / "__init__.py").touch()
    root = (tmp_path / prefix).resolve()
    for name in ("libexec/heaptape/heaptape-record", "share/heaptape/allocators/allocators.toml"):
        (root / name).parent.mkdir(parents=True)
        (root / name).touch()
    command = [sys.executable, "-c", SHOW]
    output = subprocess.run(command, capture_output=True, text=True, cwd=(tmp_path / package).parent, check=True).stdout
    shared, record, registry, *words = output.splitlines()
    assert Path(shared) == root / "share" / "heaptape"
    assert Path(record) == root / "libexec" / "heaptape" / "heaptape-record"
    assert Path(registry) == root / "share" / "heaptape" / "allocators" / "allocators.toml"
    assert words == [sys.executable, "-m", "heaptape"]


def test_a_launcher_is_what_runs_the_command_where_there_is_one(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "heaptape").touch()
    assert home.Home(tmp_path).command() == [str(tmp_path / "bin" / "heaptape")]


def test_a_checkout_is_its_own_share():
    assert home.SHARED == home.CHECKOUT
    assert home.default_home().directory == home.CHECKOUT / "out"


def use() -> None:
    with scratch_folder() as folder:
        (folder / "below").mkdir()
        (folder / "below" / "file").touch()


class Interrupt:
    """Raises KeyboardInterrupt once, at the call of Python code, or the call of C or the return from it, with that
    number: at these points Python checks for signals.
    """

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "return" and frame.f_code is not test_an_interrupt_at_any_call_leaves_no_folder.__code__:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


def test_an_interrupt_at_any_call_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    at, interrupt = 0, Interrupt(0)
    while interrupt.left <= 0:
        at += 1
        interrupt = Interrupt(at)
        sys.setprofile(interrupt)
        try:  # noqa: SIM105 - suppress() makes calls of its own
            use()
        except (KeyboardInterrupt, OSError):  # rmtree closes a directory twice if the interrupt comes while it closes
            pass
        sys.setprofile(None)
        assert list(tmp_path.iterdir()) == [], f"at call {at}"
    assert at > 200


@pytest.fixture(params=["new", "old Python", "old kernel"])
def older(request, monkeypatch):
    """Python that was compiled for an old C library, such as conda's, lacks functions; Linux before 5.3 has no such
    call.
    """

    def missing(*arguments: Any) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    if request.param == "old kernel":
        monkeypatch.setattr(os, "pidfd_open", missing)
    elif request.param == "old Python":
        for module, name in ((os, "pidfd_open"), (os, "memfd_create"), (signal, "pidfd_send_signal")):
            monkeypatch.delattr(module, name)


def test_no_signal_reaches_a_process_that_has_the_number_of_one_that_was_seen(older):
    with subprocess.Popen(["sleep", "60"]) as other:
        now = processes()[other.pid]
        assert not send_signal(other.pid, now._replace(began=now.began - 1), signal.SIGKILL)
        assert other.poll() is None
        assert send_signal(other.pid, now, signal.SIGKILL)
        assert other.wait() == -signal.SIGKILL
    assert not send_signal(other.pid, now, signal.SIGKILL)


def test_a_child_that_has_ended_is_not_reaped(older):
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        assert not process.has_ended(child, 0)
        assert not process.has_ended(child, 0.02)
        child.stdin.close()
        assert process.has_ended(child)
        assert process.has_ended(child, 0)
        assert child.returncode is None
        assert child.wait() == 0


def test_what_a_program_prints_is_read(older, tmp_path):
    program = tmp_path / "libexec" / "heaptape-convert"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "{\\"given\\": \\"$1\\"}"\necho "heaptape-convert: its fault" >&2\nexit "$2"\n')
    program.chmod(0o755)
    files = home.Home(tmp_path)
    assert process.convert_json(files, "info", "0") == {"given": "info"}
    with pytest.raises(HeaptapeError, match="^its fault$"):
        process.convert_output(files, "info", "3")


def test_an_interrupted_script_is_killed_with_its_group_before_it_is_reaped(tmp_path, monkeypatch):
    """It may have ended by then, and its number be another's."""
    killed, killpg, select = [], os.killpg, process.select.select

    def interrupted(*arguments: Any) -> None:
        select(*arguments)  # until it has ended
        raise KeyboardInterrupt

    def watched(number: int, what: int) -> None:
        killed.append(os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None)
        killpg(number, what)

    monkeypatch.setattr(process.select, "select", interrupted)
    monkeypatch.setattr(os, "killpg", watched)
    with pytest.raises(KeyboardInterrupt):
        process.run_script("sleep 100 & exit 3", tmp_path, tmp_path / "log")
    assert killed == [True]
    monkeypatch.undo()
    assert process.run_script("echo here; exit 3", tmp_path, tmp_path / "log") == 3
    assert (tmp_path / "log").read_text() == "here\n"

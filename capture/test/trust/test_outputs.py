# SPDX-License-Identifier: MIT
"""Which files a recorder writes: one recorder writes a file, and no link of another user is followed."""

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from capture.test.driven import Driven, calling
from tests.support import CONVERT, OUT, RECORD, REPLAY, check, import_text, refused, run, succeed

CALLS = calling(5_000, 5000)


@pytest.mark.parametrize("options", [(), ("--rotate", "64K", "--keep", "1")])
def test_of_two_recorders_with_one_file_the_second_starts_nothing(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "link.tape").symlink_to("t.tape")
    first = Driven(tmp_path / "t.tape", *options, program=CALLS)
    for _ in range(3):
        first.work()
        for name in ("t.tape", "link.tape") if not options else ("t.tape",):
            second = run(RECORD, "-o", tmp_path / name, *options, "--", "touch", tmp_path / "started")
            assert second.status == 1
            assert second.stderr.endswith(": another recorder is writing it\n"), second.stderr
            assert second.stderr.count("\n") == 1
    first.end()
    assert not (tmp_path / "started").exists()
    for trace in tmp_path.glob("t*.tape"):
        assert check(trace)["ok"]


def test_a_file_whose_recorder_was_killed_can_be_written_again(tmp_path: Path) -> None:
    first = Driven(tmp_path / "t.tape", program=CALLS)
    first.work()
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    assert run(RECORD, "-o", tmp_path / "t.tape", "--", "true").status == 0
    assert check(tmp_path / "t.tape")["ok"]


OTHER = 61002
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make another user's links")


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file that no output may reach."""
    path = tmp_path / "precious"
    path.write_text("precious")
    return path


def plant(link: Path, target: Path, owner: int = OTHER) -> None:
    link.symlink_to(target)
    os.lchown(link, owner, owner)


@pytest.mark.parametrize("kind", ["fifo", "socket"])
def test_a_pipe_or_socket_is_no_place_for_a_trace(tmp_path: Path, kind: str) -> None:
    """Without a reader, opening one would wait; with one, the program would run before its trace fails."""
    name = tmp_path / "t.tape"
    if kind == "fifo":
        os.mkfifo(name)
    else:
        socket.socket(socket.AF_UNIX).bind(str(name))
    refused(RECORD, "-o", name, "--", "touch", tmp_path / "started", says="is a pipe or a socket")
    refused(RECORD, "-o", "/proc/self/fd/1", "--", "touch", tmp_path / "started", says="is a pipe or a socket")
    assert not (tmp_path / "started").exists()


@needs_root
@pytest.mark.parametrize("kind", ["another user's file", "hard link"])
def test_a_file_planted_at_a_name_that_we_choose_is_not_written(tmp_path: Path, precious: Path, kind: str) -> None:
    for pid in range(1, 10):
        name = tmp_path / f"touch.{pid}.tape"
        if kind == "hard link":
            name.hardlink_to(precious)
        else:
            name.write_text("precious")
            os.chown(name, OTHER, OTHER)
    done = run("unshare", "--pid", "--fork", "--mount-proc", RECORD, "--", "touch", "started", cwd=tmp_path)
    assert (done.status, done.stderr.count("\n")) == (1, 1)
    assert "another user's or has another name" in done.stderr
    assert {path.read_text() for path in tmp_path.iterdir()} == {"precious"}


@needs_root
def test_planted_links_at_names_that_we_choose_are_not_followed(tmp_path: Path, precious: Path) -> None:
    """In a process name space the process ids are known."""
    trace, alone = tmp_path / "in.tape", ["unshare", "--pid", "--fork", "--mount-proc"]
    assert run(RECORD, "-o", trace, "--", "true").status == 0
    for pid in range(1, 10):
        plant(tmp_path / f"true.{pid}.tape", precious)
        plant(tmp_path / f"out.tape.{pid}.partial", precious)
    assert run(*alone, RECORD, "--", "true", cwd=tmp_path).status == 1
    assert run(*alone, CONVERT, "convert", trace, tmp_path / "out.tape").status == 0
    assert check(tmp_path / "out.tape")["ok"]
    assert precious.read_text() == "precious"


@needs_root
def test_a_link_at_the_given_name_is_followed_only_where_it_is_ours_or_roots(tmp_path: Path, precious: Path) -> None:
    plant(tmp_path / "theirs.tape", precious)
    (tmp_path / "through.tape").symlink_to("theirs.tape")
    for name in ("theirs.tape", "through.tape"):
        refused = run(RECORD, "-o", tmp_path / name, "--", "touch", tmp_path / "started")
        assert refused.status == 1
        assert "Permission denied" in refused.stderr
    assert precious.read_text() == "precious"
    assert not (tmp_path / "started").exists()
    (tmp_path / "folder").mkdir()
    (tmp_path / "ours.tape").symlink_to("folder/t.tape")
    assert run(RECORD, "-o", tmp_path / "ours.tape", "--", "true").status == 0
    assert check(tmp_path / "folder" / "t.tape")["ok"]
    plant(tmp_path / "null.tape", Path("/dev/null"))
    to_device = run(CONVERT, "convert", tmp_path / "folder" / "t.tape", tmp_path / "null.tape")
    assert (to_device.status, "null.tape: can't create: Permission denied" in to_device.stderr) == (1, True)


@needs_root
def test_results_do_not_go_through_another_users_link(tmp_path: Path, precious: Path) -> None:
    work, tape = tmp_path / "w.work", import_text(tmp_path, "0 0 malloc(24) = 0x10\n1 0 free(0x10)\n")
    succeed(CONVERT, "compile", tape, "-o", work)
    commands = ([REPLAY, "--pass", "bare", "--null", work], [OUT / "libexec" / "heaptape-observe", "--", "true"])
    for number, command in enumerate(commands):
        out, device = tmp_path / f"{number}.json", tmp_path / f"{number}.device"
        plant(out, precious)
        plant(device, Path("/dev/null"))
        succeed(command[0], "-o", out, *command[1:])
        assert json.loads(out.read_text())  # in place of the link
        assert run(command[0], "-o", device, *command[1:]).status == 1
    assert precious.read_text() == "precious"

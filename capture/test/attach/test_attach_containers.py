# SPDX-License-Identifier: MIT
"""A process in a container is attached to from outside: other files, process ids, users, network, filters."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from capture.test.attach.attached import (
    HANG_S,
    SOURCES,
    Attached,
    Worker,
    jumps,
    library_mappings,
    redirected_references,
    relay_mappings,
    requests,
    worker_threads,
    workers,
)
from capture.test.filters import ALLOW, KILL, Rule, compile_filtered, docker, make_filter
from tests.support import RECORD, check, compile_c, info, refused

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can make a container, and enter it")

# Puts a tmpfs with a copy of a folder in the place of the root; then executes a program.
PIVOT = """
import ctypes, os, shutil, sys
kernel = ctypes.CDLL(None, use_errno=True)
def done(result): assert result == 0, os.strerror(ctypes.get_errno())
folder, root, proc, *program = sys.argv[1:]
done(kernel.unshare(0x20000))
done(kernel.mount(b"none", b"/", None, 0x44000, None))
done(kernel.mount(b"none", root.encode(), b"tmpfs", 0, None))
shutil.copytree(folder, root, dirs_exist_ok=True)
os.chdir(root)
os.mkdir("old")
os.mkdir("proc")
if proc == "with proc": done(kernel.mount(b"proc", b"proc", b"proc", 0, None))
done(kernel.syscall(155, b".", b"old"))
os.chdir("/")
done(kernel.umount2(b"old", 2))
os.execv(program[0], program)
"""
ALL = ("--pid", "--net", "--mount", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc")
SPACES = {
    "mount": ("--mount",),
    "network": ("--net",),
    "process ids": ("--pid", "--fork", "--kill-child"),
    "all": ALL,
    "users": ("--user",),
    "all, and users": ("--user", "--map-root-user", *ALL),
}


def may_unshare(*options: str) -> bool:
    return subprocess.run(["unshare", *options, "true"], capture_output=True, check=False).returncode == 0


def innermost(pid: int) -> int:
    """The process itself, or the one in which its children end."""
    while children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        pid = int(children[0])
    return pid


@pytest.fixture
def contained(programs: Callable[[str], tuple[Path, Path]]):  # noqa: ANN201
    """Starts a worker behind other commands."""
    with workers(programs("plain")) as begin:

        def start(*under: str | Path) -> Worker:
            program = begin(2, under=under)
            program.inside = innermost(program.pid)
            return program

        yield start


def root_of(folder: Path, *files: Path) -> Path:
    """A folder with these programs and files, and the libraries that they need, under the same paths."""
    listed = subprocess.run(["ldd", *files], capture_output=True, text=True, check=False).stdout
    for file in {*files, *(Path(path) for path in re.findall(r"(/\S+) \(0x", listed))}:
        place = folder / "files" / file.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    (folder / "root").mkdir()
    return folder / "files"


def record(program: Worker, folder: Path) -> None:
    """Records it: the trace is legal and complete, the fork child's, too; the process is left as it was."""
    descriptors = sorted(Path(f"/proc/{program.inside}/fd").iterdir())
    attached = Attached(program.inside, folder / "t.tape", "--all-processes")
    program.obey("c")
    program.obey("f")
    refused(RECORD, "--attach", str(program.inside), "-o", folder / "other.tape", says="being recorded already")
    attached.stop()
    threads = worker_threads(requests(attached.trace))
    assert {thread: jumps(sizes) for thread, sizes in threads.items()} == {thread: [] for thread in threads}
    assert len(threads) == 2
    traces = sorted(folder.glob("t*.tape"))
    assert len(traces) == 2
    for trace in traces:
        assert check(trace)["ok"]
    assert {info(trace)["info"]["pid"] for trace in traces} > {program.inside}
    assert program.inside in {info(trace)["info"]["parent_pid"] for trace in traces}
    assert sorted(Path(f"/proc/{program.inside}/fd").iterdir()) == descriptors
    assert redirected_references(program.inside) == 0
    program.obey("c")
    assert program.end() == 0


@pytest.mark.parametrize("options", SPACES.values(), ids=SPACES.keys())
def test_namespaces(contained, tmp_path: Path, options: tuple[str, ...]) -> None:
    if not may_unshare(*options):
        pytest.skip("this machine does not allow such a namespace")
    record(contained("unshare", *options, "--"), tmp_path)


def test_where_few_descriptors_are_allowed_the_library_is_lent_at_a_low_one(contained, tmp_path: Path) -> None:
    if not may_unshare(*ALL):
        pytest.skip("this machine does not allow such a namespace")
    record(contained("prlimit", "--nofile=64", "unshare", *ALL, "--"), tmp_path)


def test_another_root_under_dockers_filter(contained, programs, tmp_path: Path) -> None:
    if not may_unshare(*ALL):
        pytest.skip("this machine does not allow such a namespace")
    tool, (rules,) = compile_filtered(tmp_path), docker(tmp_path)
    files = root_of(tmp_path, programs("plain")[0], tool, rules)
    under = ["unshare", *ALL, "--", sys.executable, "-c", PIVOT, files, tmp_path / "root", "with proc"]
    record(contained(*under, tool, rules, "--"), tmp_path)


def test_no_other_file_is_written_in_the_place_of_the_lent_library() -> None:
    """The process, of another user, puts a file of root at the number of the descriptor that it was given. Whether it
    is in time is up to the scheduler: so it tries several times.
    """
    options, user, tries = ("--user", "--mount"), 61002, 4
    if not may_unshare(*options):
        pytest.skip("this machine does not allow such a namespace")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        program = compile_c(folder / "swaps", SOURCES / "swaps.c", "-pthread")
        file = folder / "memfd:libheaptape-attach.so"  # as a bind mount in its own name space may be called
        file.write_text("root's own")
        for _ in range(tries):
            process = subprocess.Popen(
                ["unshare", *options, program, file], user=user, group=user, stdout=subprocess.PIPE
            )
            assert process.stdout.readline() == b"\n"
            command = [RECORD, "--attach", str(process.pid), "--duration", "0.1", "-o", folder / "t.tape"]
            recorder = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG_S)
            process.kill()
            process.communicate()
            assert file.read_text() == "root's own", recorder.stderr


def leave_alone(program: Worker, folder: Path, says: str) -> None:
    refused(RECORD, "--attach", str(program.inside), "-o", folder / "t.tape", says=says)
    assert library_mappings(program.inside) == relay_mappings(program.inside) == []
    program.obey("c")
    assert program.end() == 0


def test_another_root_without_proc_is_left_alone(contained, programs, tmp_path: Path) -> None:
    files = root_of(tmp_path, programs("plain")[0])
    program = contained(sys.executable, "-c", PIVOT, files, tmp_path / "root", "without proc")
    leave_alone(program, tmp_path, "without /proc")


def test_other_files_where_the_library_may_not_be_lent_are_left_alone(contained, tmp_path: Path) -> None:
    rules = make_filter(tmp_path / "rules", ALLOW, [Rule("memfd_create", KILL)])
    program = contained("unshare", "--mount", "--", compile_filtered(tmp_path), rules, "--")
    leave_alone(program, tmp_path, "forbids memfd_create")

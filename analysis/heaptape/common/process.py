# SPDX-License-Identifier: MIT
"""This process, its folder and its children: processors, what a command needs while it runs, forks, C programs whose
errors become a command's.
"""

import contextlib
import errno
import fcntl
import gc
import json
import os
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeVar

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


PR_SET_CHILD_SUBREAPER = 36


@contextlib.contextmanager
def scratch_folder(below: Path | None = None, prefix: str = "heaptape.") -> Iterator[Path]:
    """A new folder, in TMPDIR or `below`, removed at the end, even after an interrupt: its name is known before it is
    made. (Python's tempfile leaves the folder if an interrupt comes before it has stored the name.) Raises OSError.
    """
    import base64  # here, as every command imports this module, and few need a folder
    import shutil
    import tempfile

    name = base64.b32encode(os.urandom(5)).decode().lower()  # 8 characters, as tempfile's names have
    folder = Path(below or tempfile.gettempdir()) / f"{prefix}{name}"
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        except BaseException:  # an interrupt during the removal
            shutil.rmtree(folder, ignore_errors=True)
            raise


@contextlib.contextmanager
def locked(path: Path, how: int = fcntl.LOCK_EX | fcntl.LOCK_NB) -> Iterator[int]:
    """A file, which is made if it is not there, or a folder; held by flock. Yields its descriptor. The kernel releases
    it with the process, however that ends. Raises BlockingIOError where another process has it, OSError.
    """
    kind = os.O_RDONLY | os.O_DIRECTORY if path.is_dir() else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, kind | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, how)
        yield descriptor
    finally:
        os.close(descriptor)


def processors() -> int:
    return len(os.sched_getaffinity(0))


def outlive_peers() -> None:
    """Ignores SIGPIPE, so that a lost peer is an error of its connection and does not end this process. (The command
    line leaves the signal at its default.) Programs that this process starts get the default.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)


Made = TypeVar("Made")


# Work divided into pieces. Forked, not spawned: the input of a piece (hundreds of MiB of results) is in memory
# already, and only its result is sent back. Not a ProcessPoolExecutor, whose workers outlive a parent that is killed.
# Here each worker ends after its share at the latest, or when the parent's end of its pipe is closed.
def in_order(work: Callable[[int], Made], count: int, most: int | None = None) -> Iterator[Made]:
    """Yields work(0), ..., work(count - 1), each as soon as it and all before it are done.

    An exception of a piece is raised here in its place, and the other processes are stopped; so they are when the
    iterator is closed. Raises HeaptapeError if a process is lost. Without a second processor or piece, all work is done
    in this process. `most`: the largest number of processes; by default one for each processor.

    >>> list(in_order(lambda n: n * n, 3))
    [0, 1, 4]
    """
    workers = min(count, most or processors())
    if workers < 2:
        yield from map(work, range(count))
        return
    import multiprocessing  # 20 ms, of every command

    fork = multiprocessing.get_context("fork")
    processes = []
    ends: list[Connection] = []
    try:
        for first in range(workers):
            ours, theirs = fork.Pipe(duplex=False)
            share = range(first, count, workers)
            process = fork.Process(target=_work, args=(work, share, theirs, [*ends, ours]), daemon=True)
            process.start()
            theirs.close()  # else we would never see the end of the pipe
            processes.append(process)
            ends.append(ours)
        for index in range(count):
            try:
                fine, made = ends[index % workers].recv()
            except EOFError:
                raise HeaptapeError("a worker process was killed, or ran out of memory") from None
            if not fine:
                raise made
            yield made
    finally:
        for end in ends:
            end.close()
        for process in processes:
            process.terminate()
            process.join()


def _work(work: Callable[[int], object], share: range, pipe: "Connection", others: "list[Connection]") -> None:
    # Ctrl-C reaches the whole group, but the parent stops us; and we must not remove its files.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for end in others:
        end.close()
    gc.freeze()  # a collection that searched the parent's objects would copy their pages
    for index in share:
        try:
            outcome = (True, work(index))
        except Exception as error:
            outcome = (False, error)
        try:
            pipe.send(outcome)
        except BrokenPipeError:
            return
        if not outcome[0]:
            return


def run_script(script: str, folder: Path, log: Path, environment: Mapping[str, str] | None = None) -> int:
    """Runs a script (sh) in the folder, its output into the log, and returns its status. If this is ended from
    outside, all processes that the script started are ended too.
    """
    # It waits for a line before it begins: a signal that ends us before we know its process must not leave it running.
    waiting = f"read -r begin\nexec </dev/null\n{script}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["sh", "-c", waiting],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            assert process.stdin
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(b"begin\n")
                process.stdin.close()
            has_ended(process)
        except BaseException:
            end_group(process)
            raise
    return process.wait()


def has_ended(process: subprocess.Popen, limit_s: float | None = None) -> bool:
    """Waits so long, without a limit by default, for the end of a child that `end_group` or `wait` reaps later: its
    number, and its group's, is its own until then. (The methods `poll`, `send_signal` and `wait` of the class reap it.)
    """
    if process.returncode is not None:
        return True
    with _held(process.pid) as descriptor:
        if descriptor is not None:
            return bool(select.select([descriptor], [], [], limit_s)[0])
    flags = os.WEXITED | os.WNOWAIT | (0 if limit_s is None else os.WNOHANG)
    deadline = time.monotonic() + (limit_s or 0)
    while not (ended := os.waitid(os.P_PID, process.pid, flags)) and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_S)
    return ended is not None


LOOK_EVERY_S = 0.01


@contextlib.contextmanager
def _held(number: int) -> Iterator[int | None]:
    """A process's descriptor, which stays its own. None: Linux before 5.3, or a Python that was compiled for one, such
    as conda's and those that uv downloads. Raises OSError if there is no such process.
    """
    descriptor = None
    try:
        descriptor = os.pidfd_open(number)
    except AttributeError:
        pass
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def end_group(process: subprocess.Popen) -> int:
    """Kills a child, which leads a group, and all of its group; then reaps it, and returns its status."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def build_error(log: Path) -> str:
    """The last line with a compiler's error, as the very last may be make's; else the last line."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - (1 << 16)))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\berror: ", line)]
    return (errors or lines or ["(it printed nothing)"])[-1]


def convert_json(home: Home, *arguments: str) -> dict:
    """What heaptape-convert prints with --json, parsed. Raises HeaptapeError with its error message."""
    result: dict = json.loads(convert_output(home, *arguments, "--json"))
    return result


def convert_output(home: Home, *arguments: str) -> bytes:
    """What heaptape-convert prints. Raises HeaptapeError with its error message."""
    command = [str(home.program("convert")), *arguments]
    # Into files in memory, not pipes: a wakeup for each 64 KiB costs more CPU time than decoding them.
    with _memory_file() as out, _memory_file() as errors:
        status = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, close_fds=False
        ).returncode
        out.seek(0)
        errors.seek(0)
        if status == 0:
            return out.read()
        message = last_message(errors.read().decode(errors="replace"), "convert")
    raise HeaptapeError(message or f"heaptape-convert {arguments[0]} failed")


def _memory_file() -> BinaryIO:
    """An empty file in memory; a temporary one with a Python that was compiled for a glibc before 2.27, as conda's."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("output"), "w+b")
    import tempfile

    return tempfile.TemporaryFile()  # noqa: SIM115


def last_message(stderr: str, program: str) -> str:
    """A program's last line on stderr, without its name, as the user did not call it."""
    last = (stderr.strip().splitlines() or [""])[-1]
    return re.sub(r" \(heaptape[a-z -]* --help\)$", "", last.removeprefix(f"heaptape-{program}: "))


class InProc(NamedTuple):
    """A process, as /proc lists it. `state`: Z and X have ended. `began`: in ticks since the machine's start."""

    state: str
    parent: int
    session: int
    began: int


def processes() -> dict[int, InProc]:
    """All processes by number. One that begins while the list is read may be missing."""
    found = {}
    for path in Path("/proc").glob("[1-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended
            found[int(path.parent.name)] = _read_stat(path)
    return found


def _read_stat(path: Path) -> InProc:
    fields = path.read_text(errors="replace").rpartition(")")[2].split()
    return InProc(fields[0], int(fields[1]), int(fields[3]), int(fields[19]))


def send_signal(number: int, seen: InProc, what: int) -> bool:
    """Sends a signal to a process that was seen in /proc. False: that one has ended, or is another user's; its number
    may be another process's by now.
    """
    try:
        with _held(number) as descriptor:
            if _read_stat(Path(f"/proc/{number}/stat")).began != seen.began:
                return False
            if descriptor is None:
                os.kill(number, what)
            else:
                signal.pidfd_send_signal(descriptor, what)
    except (OSError, ValueError, IndexError):
        return False
    return True


def adopt_orphans(adopts: bool) -> None:
    """Whether orphaned descendants become children of this process instead of init's."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0)


def descendants(ancestor: int) -> dict[int, InProc]:
    """By number, children before grandchildren."""
    children: dict[int, list[int]] = {}
    every = processes()
    for number, one in every.items():
        children.setdefault(one.parent, []).append(number)
    found, level = [], [ancestor]
    while level := [child for parent in level for child in children.get(parent, [])]:
        found += level
    return {number: every[number] for number in found}

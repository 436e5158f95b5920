# SPDX-License-Identifier: MIT
"""Starts, watches and ends the processes of the replay engine.

Several may run at a time; a separate thread waits for each. A thread can't be interrupted: after an error or an
interrupt, the processes are ended, and their threads end with them. An allocator may start processes, stop those that
watch it, and hold pipes open: each engine has a session of its own, all of which ends with it, and nothing waits for
the end of a pipe.
"""

import os
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TypeVar

from heaptape.allocators.registry import Choice, files_of
from heaptape.common.process import InProc, last_message, processes, send_signal

Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Command:
    """A run of the engine: its options' values by name (replay/parent/spec.c), True for one without a value, a list for
    a repeated one; "workload" is the file.
    """

    program: Sequence[str]
    spec: Mapping[str, object]

    def words(self, progress_fd: int) -> list[str]:
        """As they are typed."""
        words = [*self.program, "--quiet", f"--progress-fd={progress_fd}"]
        for name, value in self.spec.items():
            for one in value if isinstance(value, (list, tuple)) else [value]:
                if name != "workload":
                    words.append(f"--{name}" if one is True else f"--{name}={one}")
        return [*words, "--", str(self.spec.get("workload", ""))]


class Processes:
    """Processes that are ended together: of one replay, or of several. All functions may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen] = set()
        self._ended = False

    def start(self, command: Sequence[str], stderr: IO[str], inherited: Sequence[int]) -> subprocess.Popen:
        """Starts a process in a new session, which inherits the descriptors. After `end` it is killed at once."""
        with self._lock:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                pass_fds=inherited,
                start_new_session=True,
            )
            self._running.add(process)
            if self._ended:
                kill_whole(process)
        return process

    def wait(self, process: subprocess.Popen) -> int:
        """Waits for the process and returns its exit status, as subprocess does. One that was killed could not end what
        it had started: this does.
        """
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        if ended and ended.si_code != os.CLD_EXITED:
            _kill_all_below(process.pid)
        with self._lock:
            self._running.discard(process)
            return process.wait()

    @property
    def ended(self) -> bool:
        """True after `end`: a run that failed was then killed, so its failure means nothing."""
        return self._ended

    def end(self) -> None:
        """Kills the running processes, and those that are started from now on."""
        with self._lock:
            self._ended = True
            for process in self._running:
                kill_whole(process)


ROUNDS, PAUSE_S, QUIET_LOOKS = 200, 0.005, 2  # of ending processes that start others meanwhile


def kill_whole(process: subprocess.Popen) -> None:
    """Kills all that the process has started, then the process: while it lives, even stopped, none is lost sight of."""
    _kill_all_below(process.pid)
    os.kill(process.pid, signal.SIGKILL)  # not reaped yet: `wait` alone does that


def _kill_all_below(pid: int) -> None:
    quiet = 0  # looks in a row that found nothing: one misses a process whose parent ended while it looked
    for _ in range(ROUNDS):
        found = _below(pid)
        quiet = 0 if found else quiet + 1
        if quiet == QUIET_LOOKS:
            return
        for number, seen in found.items():
            send_signal(number, seen, signal.SIGKILL)
        time.sleep(PAUSE_S)


def _below(pid: int) -> dict[int, InProc]:
    """The living processes of the session `pid`, and those that descend from them or it, without itself."""
    living = {number: one for number, one in processes().items() if one.state not in ("Z", "X")}
    found = {number for number, one in living.items() if one.session == pid}
    more = {pid} | found
    while more:
        more = {number for number, one in living.items() if one.parent in more} - found
        found |= more
    return {number: living[number] for number in found - {pid}}


def side_by_side(
    work: Callable[[Item], Made], items: Sequence[Item], jobs: int, processes: Processes
) -> Iterator[tuple[Item, Made]]:
    """Yields each item with the result of `work`, as they are done, `jobs` at a time. `processes`: those that `work`
    starts; they are ended if `work` or the caller raises.
    """
    with ThreadPoolExecutor(max(jobs, 1)) as pool:
        futures = {pool.submit(work, item): item for item in items}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            processes.end()
            raise


def in_order(
    work: Callable[[Item, Processes], Made], items: Iterable[Item], jobs: int, processes: Processes
) -> Generator[Made]:
    """Yields `work(item, processes)` of each item, in their order. At most `jobs` items are taken and in progress.
    Closing the iterator ends the work in progress, and so does an error, which is raised in its place.
    """
    waiting: list[Future[Made]] = []
    left = iter(items)
    with ThreadPoolExecutor(jobs) as pool:
        try:
            while True:
                waiting += [pool.submit(work, item, processes) for item in islice(left, jobs - len(waiting))]
                if not waiting:
                    return
                made = waiting[0].result()
                del waiting[0]
                yield made
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            processes.end()


def run_to_end(
    processes: Processes,
    command: Command,
    stderr: IO[str],
    timeout_s: float,
    tell: Callable[[float], None],
) -> tuple[str, int]:
    """Runs the engine. `tell` receives the share that is done. Returns why it was ended before its time (empty: it was
    not), and the exit status as of subprocess.
    """
    read_end, write_end = os.pipe()
    try:
        process = processes.start(command.words(write_end), stderr, [write_end])
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    try:
        with os.fdopen(read_end, "rb", buffering=0) as progress:
            why = _follow(process, progress.fileno(), timeout_s, tell)
        if why:
            kill_whole(process)
    except BaseException:
        kill_whole(process)
        raise
    finally:
        status = processes.wait(process)
    return why, status


LOOK_MS, LOOK_AT_END_MS = 200, 2


def _follow(process: subprocess.Popen, progress: int, timeout_s: float, tell: Callable[[float], None]) -> str:
    """Reads the progress until the process ends, whoever holds the pipe open. Returns as run_to_end."""
    deadline = time.monotonic() + timeout_s if timeout_s > 0 else float("inf")
    os.set_blocking(progress, False)
    poll, wait_ms = select.poll(), LOOK_MS
    poll.register(progress, select.POLLIN)
    while True:
        left_ms = max(0.0, (deadline - time.monotonic()) * 1e3)
        if poll.poll(min(left_ms, wait_ms)):
            lines = os.read(progress, 1 << 16)
            _tell_last(lines, tell)
            if not lines:
                poll.unregister(progress)
                wait_ms = LOOK_AT_END_MS
        seen = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        if seen and seen.si_code in (os.CLD_STOPPED, os.CLD_TRAPPED):
            return f"the process that watches the allocator was stopped ({signal.Signals(seen.si_status).name})"
        if seen:
            return ""
        if time.monotonic() >= deadline:
            return f"no result after {timeout_s:g} s"


def _tell_last(lines: bytes, tell: Callable[[float], None]) -> None:
    """The share that the last whole line tells of: ops done, and all ops."""
    for line in reversed(lines.split(b"\n")[:-1]):
        done, _, total = line.partition(b" ")
        if done.isdigit() and total.isdigit() and int(total):
            tell(min(1.0, int(done) / int(total)))
            return


def failure(status: int, stderr: str) -> str:
    """Why a process failed, as one line. `status`: as of subprocess; `stderr`: what it wrote."""
    if status < 0:
        return f"killed by {signal.Signals(-status).name}" + (
            f" ({last_message(stderr, 'replay')})" if stderr.strip() else ""
        )
    return last_message(stderr, "replay") or f"exit status {status}"


# Libraries that the recorded program loads whatever its allocator, and that some allocator needs.
#
# A replay's start-up is counted, and jemalloc loads the C++ library. But a program written in C++ has that library
# anyway, and one linked with tcmalloc has tcmalloc, with the memory that it takes when it is loaded (3.8 MiB), where
# another is preloaded. So the engine loads these libraries on every allocator. Which, depends on the recording alone:
# with those that the choices need, a figure of one allocator would depend on which others it is compared with.
RUNTIMES = ("libstdc++.so.6", "libgcc_s.so.1", "libm.so.6")
NOBODYS = re.compile(r"(libc\.so|ld-linux|linux-vdso|libheaptape\.so|vgpreload_)")  # in every process, or ours


def also_loaded(info: Mapping) -> list[str]:
    """Paths to preload after each allocator. `info`: of the workload; without "libraries" (imports) there are none."""
    names, own = info.get("libraries"), info.get("allocator")
    if not isinstance(names, list):
        return []
    mapped = {name for name in names if isinstance(name, str) and not NOBODYS.match(name)}
    wanted = [one for one in RUNTIMES if any(name.startswith(one) for name in mapped)]
    wanted += [own] if isinstance(own, str) and own in mapped and "/" not in own else []
    return [str(files[0]) for files in files_of(wanted, []).values() if files]


def preloads(choice: Choice, also: Sequence[str]) -> list[str]:
    """The libraries to preload for `choice`, in order. If it preloads none, the C library comes first, as one of `also`
    may be an allocator.
    """
    first = [choice.preload or str(choice.path)] if choice.preload or also else []
    there = {Path(path).resolve() for path in first}
    return [*first, *(path for path in also if Path(path).resolve() not in there)]

# SPDX-License-Identifier: MIT
"""A running program, and recorders that are attached to it."""

import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pandas as pd
from heaptape.tape.trace import open_trace

from capture.test.driven import HANG_S, Commanded
from tests.support import RECORD, check, compile_c, take_interrupts

SOURCES = Path(__file__).parent
FIRST_BYTES, LAST_BYTES, STEP_BYTES = 16, 16000, 16


def compile_worker(folder: Path, *more: str | Path) -> tuple[Path, Path]:
    """The worker, with more options or sources, and its plugin."""
    plugin = compile_c(folder / "plugin.so", SOURCES / "plugin.c", "-shared", "-fPIC")
    return compile_c(folder / "worker", SOURCES / "worker.c", "-O1", "-pthread", *more), plugin


class Worker(Commanded):
    """worker.c with `threads` threads. Its exit status is 0 where all its objects were correct."""

    def __init__(
        self, programs: tuple[Path, Path], threads: int, *options: str, under: tuple[str | Path, ...] = ()
    ) -> None:
        self.threads = threads
        super().__init__(*under, programs[0], str(threads), programs[1], *options)
        self.code: list[bytes] = []  # of an executable with an allocator, before anything was redirected
        self.obey("c")


@contextmanager
def workers(programs: tuple[Path, Path]) -> Iterator[Callable[..., Worker]]:
    """Starts workers with the given number of threads; kills them."""
    started: list[Worker] = []

    def begin(threads: int, *options: str, under: tuple[str | Path, ...] = ()) -> Worker:
        started.append(Worker(programs, threads, *options, under=under))
        return started[-1]

    yield begin
    for one in started:
        one.kill()
        one.wait()


def library_mappings(pid: int | str) -> list[str]:
    return [line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if "libheaptape-attach.so" in line]


def relay_mappings(pid: int | str) -> list[str]:
    """Code without a file: the program itself has none."""
    return [line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if re.search(r" r-xp .* 0 *$", line)]


def redirected_references(pid: int | str, mapped: Callable[[int | str], list[str]] = library_mappings) -> int:
    """Words in the objects' writable and sealed memory that point into what is `mapped`, our library as a rule; its own
    objects are left out.
    """
    lines = mapped(pid)
    if not lines:
        return 0
    ours = [tuple(int(part, 16) for part in line.split()[0].split("-")) for line in lines]
    low, high = min(begin for begin, _ in ours), max(end for _, end in ours)
    count = 0
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            words = line.split()
            if len(words) < 6 or "/" not in words[5] or "libheaptape-attach" in words[5] or "r" not in words[1]:
                continue
            begin, end = (int(part, 16) for part in words[0].split("-"))
            memory.seek(begin)
            try:
                data = memory.read(end - begin)
            except OSError:  # a fork child that attaches unmapped that memory between the two reads
                return redirected_references(pid, mapped)
            values = memoryview(data[: len(data) // 8 * 8]).cast("Q")
            count += sum(low <= value < high for value in values) if "ld-linux" not in words[5] else 0
    return count


def text(pid: int) -> list[bytes]:
    """The executable's code, as it is in memory."""
    program, code = str(Path(f"/proc/{pid}/exe").readlink()), []
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            words = line.split()
            if words[-1] == program and "x" in words[1]:
                begin, end = (int(part, 16) for part in words[0].split("-"))
                memory.seek(begin)
                code.append(memory.read(end - begin))
    assert code
    return code


def is_redirected(program: Worker, pid: int | str = "") -> bool:
    """Do references of the program, or of its fork child, lead to our library, or functions of its allocator?"""
    if program.code:
        return text(int(pid or program.pid)) != program.code
    return redirected_references(pid or program.pid) > 0


class Attached:
    """A recorder that has begun to record a process."""

    def __init__(self, pid: int, trace: Path, *options: str) -> None:
        self.trace, self.output = trace, ""
        self.process = subprocess.Popen(
            [RECORD, "--attach", str(pid), "-o", trace, *options],
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=take_interrupts,
        )
        while "recording begins" not in self.output:
            line = self.process.stderr.readline()
            assert line, f"it has not begun: {self.output}"
            self.output += line

    def wait(self) -> str:
        """Waits for its end; returns what it has printed."""
        self.output += self.process.communicate(timeout=HANG_S)[1]
        assert self.process.returncode == 0, self.output
        return self.output

    def stop(self) -> str:
        """Stops it as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        return self.wait()

    def stop_when_it_holds(self, least_bytes: int) -> str:
        """Stops it as soon as the trace has this size."""
        wait_until(lambda: self.trace.exists() and self.trace.stat().st_size > least_bytes)
        return self.stop()

    def restorer(self) -> int:
        """The process that redirects."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        assert len(children) == 1, children
        return int(children[0])


def requests(trace: Path) -> pd.DataFrame:
    """Columns thread, call and bytes of all calls, in each thread's order."""
    with open_trace(trace) as tape:
        parts = list(tape.frames())
    if not parts:
        return pd.DataFrame({"thread": [], "call": [], "bytes": []})
    events = pd.concat(parts, ignore_index=True).sort_values(["thread", "event"], kind="stable")
    return events[["thread", "call", "request_bytes"]].rename(columns={"request_bytes": "bytes"})


def worker_threads(calls: pd.DataFrame) -> dict[int, np.ndarray]:
    """The requests of each of the worker's threads, in order: such a thread makes no other requests than the known."""
    acquired = calls[calls["call"] == "malloc"]
    by_thread = {int(thread): part["bytes"].to_numpy(dtype=np.int64) for thread, part in acquired.groupby("thread")}
    known = range(FIRST_BYTES, LAST_BYTES + 1, STEP_BYTES)
    return {thread: sizes for thread, sizes in by_thread.items() if np.isin(sizes, known).all()}


def calls_of(calls: pd.DataFrame, name: str, size_bytes: int) -> int:
    return int(((calls["call"] == name) & (calls["bytes"] == size_bytes)).sum())


def wait_until(true: Callable[[], bool]) -> None:
    """The time limit bounds a hang, and is not a claim."""
    for _ in range(HANG_S * 20):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("it does not come true")


def jumps(sizes: np.ndarray) -> list[tuple[int, int]]:
    """Where one request does not follow another: calls in between are missing."""
    one, other = sizes[:-1], sizes[1:]
    wrong = other != np.where(one == LAST_BYTES, FIRST_BYTES, one + STEP_BYTES)
    return list(zip(one[wrong].tolist(), other[wrong].tolist(), strict=True))


@contextmanager
def running(*command: str | Path, ready: Callable[[], bool] | None = None) -> Iterator[subprocess.Popen]:
    """A program in its own session, killed with all processes that it has started."""
    process = subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        waited = 0
        while ready and not ready():
            assert process.poll() is None, "the program has ended"
            assert waited < HANG_S * 10, "the program has not begun"
            waited += 1
            select.select([], [], [], 0.1)
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def record_in_a_storm(program: Worker, folder: Path, recordings: int) -> Iterator[int]:
    """Yields the number of each recording when it has ended: every second one ends in the middle of the storm."""
    for number in range(recordings):
        attached = Attached(program.pid, folder / "t.tape")
        program.obey("c")
        program.request("s")
        if number % 2:
            program.answer()
        attached.stop()
        yield number
        if number % 2 == 0:
            program.answer()
        calls = requests(attached.trace)
        threads = worker_threads(calls)
        assert len(threads) == program.threads, number
        assert {thread: jumps(sizes) for thread, sizes in threads.items()} == dict.fromkeys(threads, []), number
        assert calls_of(calls, "malloc", 4242) == 10_000, number
        assert check(attached.trace)["ok"], number
        for path in folder.glob("*.tape"):
            path.unlink()

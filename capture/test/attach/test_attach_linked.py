# SPDX-License-Identifier: MIT
"""A running process with an allocator in its executable is recorded as any other: its functions are redirected at
their entries, and are byte for byte as before when the recorder has ended.

Long: a hundred recordings of a storm of threads, forks, loaded libraries and signals.
"""

import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from capture.test.attach.attached import (
    HANG_S,
    SOURCES,
    Attached,
    Worker,
    calls_of,
    compile_worker,
    jumps,
    record_in_a_storm,
    requests,
    wait_until,
    worker_threads,
    workers,
)
from tests.support import RECORD, check, compile_c, info, refused

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="attaching is for x86-64 only")

PREFIXED = ("-DPREFIX=je_", "-Dmalloc=je_malloc", "-Dfree=je_free")
FUNCTIONS = 6
THREADS = 4
HOLDS = 6  # the main thread is at such instructions in about every second one


def linked_worker(folder: Path, *options: str) -> tuple[Path, Path]:
    """The worker with an allocator in it, and its plugin."""
    return compile_worker(folder, *options, SOURCES / "own_malloc.c")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    return {
        "own malloc": linked_worker(tmp_path_factory.mktemp("own"), "-pie", "-fPIE"),
        "own malloc at a fixed address": linked_worker(tmp_path_factory.mktemp("fixed"), "-no-pie", "-fno-pie"),
        "with a prefix": linked_worker(tmp_path_factory.mktemp("prefixed"), *PREFIXED),
    }


KINDS = ("own malloc", "own malloc at a fixed address", "with a prefix")


@pytest.fixture(params=KINDS)
def worker(request: pytest.FixtureRequest, programs: dict[str, tuple[Path, Path]]) -> Iterator[Callable[..., Worker]]:
    with workers(programs[request.param]) as begin:
        yield begin


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


def test_no_call_of_any_thread_is_missing_from_its_first_one_on(worker, tmp_path: Path) -> None:
    program = worker(THREADS)
    before = text(program.pid)
    attached = Attached(program.pid, tmp_path / "t.tape")
    assert f"{FUNCTIONS} functions of an allocator in it" in attached.output
    assert text(program.pid) != before
    for _ in range(5):
        program.obey("c")
    assert "everything is put back" in attached.stop()
    assert text(program.pid) == before
    calls = requests(attached.trace)
    threads = worker_threads(calls)
    assert {thread: jumps(sizes) for thread, sizes in threads.items()} == dict.fromkeys(threads, [])
    assert len(threads) == THREADS
    assert calls_of(calls, "malloc", 4242) == 50_000
    found = check(attached.trace)
    assert found["ok"], found
    assert 0 < found["unseen_frees"] <= THREADS * 32, "what the threads held when it began"
    assert found["double_frees"] == found["overlapping_acquires"] == found["dropped"] == 0
    assert "worker" in info(attached.trace)["info"]["allocator"]
    assert "calls" not in info(attached.trace)["info"]["lacks"]
    assert program.end() == 0


def test_libraries_calls_are_recorded_too(worker, tmp_path: Path) -> None:
    program = worker(1)
    attached = Attached(program.pid, tmp_path / "t.tape")
    for _ in range(3):
        program.obey("l")
    attached.stop()
    assert calls_of(requests(attached.trace), "malloc", 7777) == 3 * 1001
    assert program.end() == 0


def test_fork_children_are_recorded_and_put_back(worker, tmp_path: Path) -> None:
    program = worker(1)
    before = text(program.pid)
    attached = Attached(program.pid, tmp_path / "t.tape")
    program.obey("c")  # so that the first trace is its own
    program.obey("f")
    program.obey("F")
    (child,) = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
    assert text(int(child)) != before
    assert "in its fork children too" in attached.stop()
    assert text(int(child)) == text(program.pid) == before
    os.kill(int(child), 0)
    children = [path for path in tmp_path.glob("*.tape") if path != attached.trace]
    assert 500 in [calls_of(requests(path), "malloc", 3131) for path in children]
    assert all(check(path)["ok"] for path in children)
    assert program.end() == 0


def kill_recorder(attached: Attached) -> None:
    keeper = attached.keeper()
    attached.process.kill()
    wait_until(lambda: not Path(f"/proc/{keeper}").exists())


def kill_keeper(attached: Attached) -> None:
    os.kill(attached.keeper(), signal.SIGKILL)


@pytest.mark.parametrize("kill", [kill_recorder, kill_keeper])
def test_either_killed_leaves_the_program_as_it_was(worker, tmp_path: Path, kill: Callable[[Attached], None]) -> None:
    program = worker(3)
    before = text(program.pid)
    attached = Attached(program.pid, tmp_path / "t.tape")
    kill(attached)
    attached.process.communicate(timeout=HANG_S)
    assert text(program.pid) == before
    program.obey("c")
    assert program.end() == 0


def test_both_killed_leave_a_program_that_runs_and_is_put_back_by_the_next(worker, tmp_path: Path) -> None:
    program = worker(3)
    before = text(program.pid)
    attached = Attached(program.pid, tmp_path / "t.tape")
    keeper = attached.keeper()
    os.kill(keeper, signal.SIGSTOP)
    attached.process.kill()
    os.kill(keeper, signal.SIGKILL)
    attached.process.communicate(timeout=HANG_S)
    program.obey("c")
    assert text(program.pid) != before
    again = Attached(program.pid, tmp_path / "again.tape")
    program.obey("c")
    again.stop()
    assert text(program.pid) == before
    calls = requests(again.trace)
    assert calls_of(calls, "malloc", 4242) == 10_000
    assert [jumps(sizes) for sizes in worker_threads(calls).values()] == [[]] * 3
    assert program.end() == 0


def mapped_code(pid: int) -> int:
    """Mappings of code without a file: the gate, and the trampolines."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return sum("x" in line.split()[1] and len(line.split()) == 5 for line in lines)


@pytest.mark.parametrize("recordings", [4, pytest.param(100, marks=pytest.mark.long)])
def test_many_recordings_leave_a_storm_unharmed(worker, tmp_path: Path, recordings: int) -> None:
    program = worker(6, "signals")
    before, rooms = text(program.pid), []
    for number in record_in_a_storm(program, tmp_path, recordings):
        assert text(program.pid) == before, number
        rooms.append(mapped_code(program.pid))
    assert len(set(rooms)) == 1, "code that an earlier recording has left is used again"
    assert program.end() == 0


class Interrupted:
    """`process`: interrupted.c."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.process.pid
        self.await_line(None)

    def await_line(self, most_s: float | None) -> bool:
        assert self.process.stdout
        if not select.select([self.process.stdout], [], [], most_s)[0]:
            return False
        assert os.read(self.process.stdout.fileno(), 1) == b"\n"
        return True

    def interrupt(self) -> None:
        """Interrupts it until it waits in the handler, after one of malloc's first instructions."""
        for _ in range(HANG_S * 100):
            self.process.send_signal(signal.SIGUSR1)
            if self.await_line(0.01):
                return
        raise AssertionError("no signal comes at malloc's first instructions")

    def go_on(self) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def end(self) -> int:
        self.process.send_signal(signal.SIGUSR2)
        return self.process.wait(timeout=HANG_S)


@pytest.fixture(scope="module")
def interrupted_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sources = (SOURCES / "interrupted.c", SOURCES / "own_malloc.c")
    return compile_c(tmp_path_factory.mktemp("interrupted") / "program", *sources, "-O1", "-w", "-pthread")


@pytest.fixture
def interrupted(interrupted_program: Path) -> Iterator[Interrupted]:
    program = Interrupted(interrupted_program)
    yield program
    program.process.kill()
    program.process.wait()


def test_threads_that_are_held_at_overwritten_instructions_go_on(interrupted: Interrupted, tmp_path: Path) -> None:
    before = text(interrupted.pid)
    for _ in range(HOLDS):
        attached = Attached(interrupted.pid, tmp_path / "t.tape", "--duration", "0.05", "--on-full", "drop")
        attached.wait()
        assert text(interrupted.pid) == before
    assert interrupted.end() == 0


def test_a_handler_that_is_to_come_back_to_overwritten_instructions_is_waited_for(
    interrupted: Interrupted, tmp_path: Path
) -> None:
    before = text(interrupted.pid)
    interrupted.interrupt()
    refused(RECORD, "--attach", str(interrupted.pid), "-o", tmp_path / "t.tape", says="in a signal handler?")
    assert text(interrupted.pid) == before
    interrupted.go_on()
    attached = Attached(interrupted.pid, tmp_path / "t.tape")
    interrupted.interrupt()
    interrupted.go_on()
    attached.stop()
    assert check(tmp_path / "t.tape")["ok"]
    assert interrupted.end() == 0


def test_a_handler_comes_back_to_a_trampoline_after_the_recording(interrupted: Interrupted, tmp_path: Path) -> None:
    before = text(interrupted.pid)
    attached = Attached(interrupted.pid, tmp_path / "t.tape")
    interrupted.interrupt()
    attached.stop()
    assert text(interrupted.pid) == before
    interrupted.go_on()
    interrupted.interrupt()
    interrupted.go_on()
    assert interrupted.end() == 0

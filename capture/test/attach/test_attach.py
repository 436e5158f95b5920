# SPDX-License-Identifier: MIT
"""A running process is recorded from some moment on, loses nothing, and is as before when the recorder has ended: also
one with an allocator in its executable, whose functions are redirected at their entries.

Long: executables at fixed addresses, and with an allocator of prefixed names; a hundred recordings of a storm of
threads, forks, loaded libraries and signals.
"""

import os
import re
import signal
from pathlib import Path

import pytest

from capture.test.attach.attached import (
    HANG_S,
    Attached,
    calls_of,
    is_redirected,
    jumps,
    library_mappings,
    record_in_a_storm,
    redirected_references,
    requests,
    wait_until,
    worker_threads,
)
from capture.test.attach.conftest import KINDS
from tests.support import CONVERT, RECORD, REPLAY, check, info, refused, succeed

FUNCTIONS = 6  # of the allocator in an executable
THREADS = 4
# docs/use/ATTACH.md: mappings that a recording leaves where a stack shows an address in a hook, as these threads' do.
LEFT_MAPPED = 5


@pytest.mark.parametrize(
    "any_worker", ["plain", "own malloc", "own malloc at a fixed address", "with a prefix"], indirect=True
)
def test_no_call_of_any_thread_is_missing_from_its_first_one_on_and_the_trace_replays(any_worker, tmp_path):
    program = any_worker(THREADS)
    attached = Attached(program.pid, tmp_path / "t.tape")
    assert (f"{FUNCTIONS} functions of an allocator in it" in attached.output) == bool(program.code)
    assert is_redirected(program)
    for _ in range(10):
        program.obey("c")
    assert "everything is put back" in attached.stop()
    assert not is_redirected(program)
    size_bytes = attached.trace.stat().st_size
    program.obey("c")
    assert attached.trace.stat().st_size == size_bytes
    calls = requests(attached.trace)
    threads = worker_threads(calls)
    assert len(threads) == THREADS
    assert {thread: jumps(sizes) for thread, sizes in threads.items()} == dict.fromkeys(threads, [])
    assert min(map(len, threads.values())) > 500
    assert calls_of(calls, "malloc", 4242) == 100_000
    found, about = check(attached.trace), info(attached.trace)["info"]
    assert found["ok"], found
    assert 0 < found["unseen_frees"] <= THREADS * 32, "what the threads held when it began"
    assert found["double_frees"] == found["overlapping_acquires"] == found["dropped"] == 0
    assert {"start", "in_flight"} <= set(about["lacks"])
    assert "calls" not in about["lacks"]
    assert ("worker" in about["allocator"]) == bool(program.code)
    succeed(CONVERT, "compile", attached.trace)
    succeed(REPLAY, attached.trace.with_suffix(".work"), "--pass", "time")
    assert program.end() == 0


def test_objects_that_are_loaded_later_are_recorded_from_their_constructors_on(any_worker, tmp_path: Path) -> None:
    program = any_worker(1)
    attached = Attached(program.pid, tmp_path / "t.tape")
    for _ in range(5):
        program.obey("l")
    attached.stop()
    assert calls_of(requests(attached.trace), "malloc", 7777) == 5 * 1001
    assert program.end() == 0


def test_fork_children_get_traces_of_their_own_and_are_put_back(any_worker, tmp_path: Path) -> None:
    program = any_worker(1)
    attached = Attached(program.pid, tmp_path / "t.tape", "--all-processes")
    program.obey("c")  # so that the first trace is its own
    for _ in range(3):
        program.obey("f")
    program.obey("F")
    (child,) = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
    assert is_redirected(program, child)
    assert "in its fork children too" in attached.stop()
    assert not is_redirected(program, child)
    assert not is_redirected(program)
    os.kill(int(child), 0)
    ended = set(tmp_path.glob("*.tape")) - {attached.trace, tmp_path / f"t.{child}.tape"}
    assert [calls_of(requests(path), "malloc", 3131) for path in ended] == [500] * 3
    assert all(check(path)["ok"] for path in tmp_path.glob("*.tape"))
    assert program.end() == 0


def test_a_second_recording_is_as_the_first(worker, tmp_path: Path) -> None:
    program = worker(2)
    for number in range(3):
        attached = Attached(program.pid, tmp_path / f"{number}.tape")
        program.obey("c")
        attached.stop()
        calls = requests(attached.trace)
        assert calls_of(calls, "malloc", 4242) == 10_000
        assert [jumps(sizes) for sizes in worker_threads(calls).values()] == [[], []]
        assert check(attached.trace)["ok"]
    assert len({line.split()[4] for line in library_mappings(program.pid)}) == 1, "it was loaded twice"
    assert program.end() == 0


def say_recorded_by(pid: int, recorder: int) -> None:
    """As if a process that is not a recorder had the number of the recorder that has recorded it."""
    with Path(f"/proc/{pid}/mem").open("r+b", 0) as memory:
        for line in library_mappings(pid):
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            memory.seek(begin)
            for found in re.finditer(rb"heaptape-\d{7}-", memory.read(end - begin)):
                memory.seek(begin + found.start())
                memory.write(b"heaptape-%07d-" % recorder)


def kill_recorder(attached: Attached) -> None:
    restorer = attached.restorer()
    attached.process.kill()
    wait_until(lambda: not Path(f"/proc/{restorer}").exists())


def kill_restorer(attached: Attached) -> None:
    os.kill(attached.restorer(), signal.SIGKILL)


def kill_both(attached: Attached) -> None:
    restorer = attached.restorer()
    os.kill(restorer, signal.SIGSTOP)
    attached.process.kill()
    os.kill(restorer, signal.SIGKILL)


@pytest.mark.parametrize("kill", [kill_recorder, kill_restorer, kill_both])
def test_whatever_is_killed_leaves_a_program_that_runs_and_can_be_recorded_again(any_worker, tmp_path, kill):
    """As it was before, except where both are killed: then the next recording puts back what the killed one left."""
    program = any_worker(3)
    attached = Attached(program.pid, tmp_path / "t.tape")
    program.obey("c")  # else there may be no call, and no trace
    kill(attached)
    attached.process.communicate(timeout=HANG_S)
    assert is_redirected(program) == (kill is kill_both)
    assert kill is not kill_restorer or check(attached.trace)["ok"]
    program.obey("c")
    say_recorded_by(program.pid, os.getpid())
    again = Attached(program.pid, tmp_path / "again.tape")
    assert program.code or " 0 references" not in again.output
    program.obey("c")
    again.stop()
    calls = requests(again.trace)
    assert calls_of(calls, "malloc", 4242) == 10_000
    assert [jumps(sizes) for sizes in worker_threads(calls).values()] == [[]] * 3
    assert not is_redirected(program)
    assert program.end() == 0


def test_the_program_killed_leaves_a_trace_of_all_up_to_then(worker, tmp_path: Path) -> None:
    program = worker(2)
    attached = Attached(program.pid, tmp_path / "t.tape")
    program.obey("c")
    program.kill()
    attached.wait()
    assert calls_of(requests(attached.trace), "malloc", 4242) == 10_000
    assert check(attached.trace)["ok"]


def test_a_duration_ends_it(worker, tmp_path: Path) -> None:
    program = worker(1)
    output = Attached(program.pid, tmp_path / "t.tape", "--duration", "0.3").wait()
    assert "--duration is over" in " ".join(output.split())  # the line wraps where the path is long
    assert redirected_references(program.pid) == 0
    assert program.end() == 0


def test_stacks_latency_and_usable_sizes_are_recorded(worker, tmp_path: Path) -> None:
    program = worker(1)
    attached = Attached(program.pid, tmp_path / "t.tape", "--stacks", "--usable")
    program.obey("c")
    attached.stop()
    dumped = succeed(CONVERT, "dump", attached.trace, "--stacks").stdout
    assert "worker" in dumped
    assert program.end() == 0


def test_a_process_that_is_being_recorded_is_refused(worker, tmp_path: Path) -> None:
    program = worker(1)
    attached = Attached(program.pid, tmp_path / "t.tape")
    refused(RECORD, "--attach", str(program.pid), "-o", tmp_path / "second.tape", says="being recorded already")
    program.obey("c")
    attached.stop()
    assert calls_of(requests(attached.trace), "malloc", 4242) == 10_000


def mapped_code(pid: int) -> int:
    """Mappings of code without a file: the relay, and the trampolines."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return sum("x" in line.split()[1] and len(line.split()) == 5 for line in lines)


@pytest.mark.parametrize(
    ("any_worker", "recordings"),
    [("own malloc", 2), *(pytest.param(kind, 100, marks=pytest.mark.long) for kind in KINDS)],
    indirect=["any_worker"],
)
def test_many_recordings_leave_a_storm_unharmed(any_worker, tmp_path: Path, recordings: int) -> None:
    program = any_worker(6, "signals")
    mappings, rooms = [], []
    for number in record_in_a_storm(program, tmp_path, recordings):
        assert not is_redirected(program), number
        mappings.append(len(Path(f"/proc/{program.pid}/maps").read_text().splitlines()))
        rooms.append(mapped_code(program.pid))
    own = 24  # the storm's own: heaps grow, by 10 once on a busy machine
    assert mappings[-1] - mappings[0] <= LEFT_MAPPED * (len(mappings) - 1) + own, mappings
    assert not program.code or len(set(rooms)) == 1, "code that an earlier recording has left is used again"
    assert program.end() == 0

# SPDX-License-Identifier: MIT
"""A running process is recorded from some moment on, loses nothing, and is as before when the recorder has ended.

Long: a hundred recordings of a storm of threads, forks, loaded libraries and signals.
"""

import os
import re
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
from tests.support import CONVERT, RECORD, REPLAY, check, compile_c, info, refused, succeed, take_interrupts

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="attaching is for x86-64 only")

# docs/use/ATTACH.md: mappings that a recording leaves where a stack shows an address in a hook, as these threads' do.
LEFT_MAPPED = 5


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return compile_worker(tmp_path_factory.mktemp("attach"))


@pytest.fixture
def worker(programs: tuple[Path, Path]) -> Iterator[Callable[..., Worker]]:
    with workers(programs) as begin:
        yield begin


def library_mappings(pid: int | str) -> list[str]:
    return [line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if "libheaptape-attach.so" in line]


def gate_mappings(pid: int | str) -> list[str]:
    """Code without a file: the program itself has none."""
    return [line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if re.search(r" r-xp .* 0 *$", line)]


def redirected_references(pid: int | str, mapped: Callable[[int | str], list[str]] = library_mappings) -> int:
    """Words in the objects' writable and sealed memory that point into what is `mapped`, our library as a rule; its own
    objects are left out.
    """
    ours = [tuple(int(part, 16) for part in line.split()[0].split("-")) for line in mapped(pid)]
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


def test_no_call_of_any_thread_is_missing_from_its_first_one_on_and_the_trace_replays(worker, tmp_path: Path) -> None:
    program = worker(4)
    attached = Attached(program.pid, tmp_path / "t.tape")
    for _ in range(10):
        program.obey("c")
    assert "everything is put back" in attached.stop()
    calls = requests(attached.trace)
    threads = worker_threads(calls)
    assert len(threads) == 4
    assert {thread: jumps(sizes) for thread, sizes in threads.items()} == dict.fromkeys(threads, [])
    assert min(map(len, threads.values())) > 500
    assert calls_of(calls, "malloc", 4242) == 100_000
    found = check(attached.trace)
    assert found["ok"], found
    assert 0 < found["unseen_frees"] <= 4 * 32, "what the threads held when it began"
    assert found["double_frees"] == found["overlapping_acquires"] == 0
    assert {"start", "in_flight"} <= set(info(attached.trace)["info"]["lacks"])
    succeed(CONVERT, "compile", attached.trace)
    succeed(REPLAY, attached.trace.with_suffix(".work"), "--pass", "time")
    assert program.end() == 0


def test_everything_is_put_back(worker, tmp_path: Path) -> None:
    program = worker(2)
    attached = Attached(program.pid, tmp_path / "t.tape")
    assert redirected_references(program.pid) >= 4
    program.obey("c")  # else there may be no call, and no trace
    attached.stop()
    assert redirected_references(program.pid) == 0
    size_bytes = attached.trace.stat().st_size
    program.obey("c")
    assert attached.trace.stat().st_size == size_bytes
    assert program.end() == 0


def test_objects_that_are_loaded_later_are_recorded_from_their_constructors_on(worker, tmp_path: Path) -> None:
    program = worker(1)
    attached = Attached(program.pid, tmp_path / "t.tape")
    for _ in range(5):
        program.obey("l")
    attached.stop()
    assert calls_of(requests(attached.trace), "malloc", 7777) == 5 * 1001
    assert program.end() == 0


def test_fork_children_get_traces_of_their_own_and_are_put_back(worker, tmp_path: Path) -> None:
    program = worker(1)
    attached = Attached(program.pid, tmp_path / "t.tape")
    program.obey("c")  # so that the first trace is its own
    for _ in range(3):
        program.obey("f")
    program.obey("F")
    (child,) = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
    assert redirected_references(child) >= 4
    assert "in its fork children too" in attached.stop()
    assert redirected_references(child) == 0
    ended = set(tmp_path.glob("*.tape")) - {attached.trace, tmp_path / f"t.{child}.tape"}
    assert [calls_of(requests(path), "malloc", 3131) for path in ended] == [500] * 3
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


# Of x86-64: epoll_wait, semtimedop, rt_sigtimedwait, recvfrom, connect.
WAITS = {"232", "220", "128", "45", "42"}


def kernel_calls(pid: int) -> set[str]:
    """The system calls in which threads of the process wait."""
    return {path.read_text().split()[0] for path in Path(f"/proc/{pid}/task").glob("*/syscall")}


def test_calls_of_the_kernel_that_a_stop_would_end_are_made_again(tmp_path: Path) -> None:
    waits = compile_c(tmp_path / "waits", SOURCES / "waits.c", "-O1", "-pthread")
    program = Worker((waits, tmp_path), 0)
    wait_until(lambda: kernel_calls(program.pid) >= WAITS)
    attached = Attached(program.pid, tmp_path / "t.tape")
    program.obey("c")
    attached.stop()
    wait_until(lambda: kernel_calls(program.pid) >= WAITS)
    assert program.end() == 0, "one of them has returned"


def test_what_is_refused_when_the_library_is_there_is_put_back(tmp_path: Path) -> None:
    source = tmp_path / "valloc.c"
    source.write_text("char *valloc(unsigned long bytes) { return (char *)bytes; }")
    program = Worker(compile_worker(tmp_path, source, "-rdynamic"), 1)
    refused(RECORD, "--attach", program.pid, "-o", tmp_path / "t.tape", says="the program defines valloc itself")
    assert redirected_references(program.pid, gate_mappings) == 0
    assert program.end() == 0


def test_a_process_that_lets_nothing_become_code_is_recorded(tmp_path: Path) -> None:
    forbids = """
#include <sys/prctl.h>
__attribute__((constructor)) static void forbid(void) {
  if (prctl(65 /* PR_SET_MDWE */, 1, 0, 0, 0) != 0)
    __builtin_trap();
}"""
    source = tmp_path / "forbids.c"
    source.write_text(forbids)
    program = Worker(compile_worker(tmp_path, source), 1)
    attached = Attached(program.pid, tmp_path / "t.tape")
    program.obey("c")
    attached.stop()
    assert calls_of(requests(attached.trace), "malloc", 4242) == 10_000
    assert program.end() == 0


CPP = """
#include <poll.h>
#include <unistd.h>
#include <new>
int main() {
  char word;
  struct pollfd input = {0, POLLIN, 0};
  for (;;) {
    delete new int;
    if (poll(&input, 1, 1) != 1)
      continue;
    if (read(0, &word, 1) != 1)
      return 0;
    for (int i = 0; i < 1000; i++)
      delete[] new char[555];
    if (write(1, "\\n", 1) != 1)
      return 1;
  }
}
"""


def test_operators_of_cpp_are_recorded_as_such(tmp_path: Path) -> None:
    source = tmp_path / "operators.cpp"
    source.write_text(CPP)
    program = tmp_path / "operators"
    subprocess.run(["c++", "-O0", "-o", program, source], check=True)
    worker = Worker((program, tmp_path), 0)
    attached = Attached(worker.pid, tmp_path / "t.tape")
    for _ in range(3):
        worker.obey("c")
    attached.stop()
    calls = requests(attached.trace)
    acquired = calls[calls["bytes"] == 555]
    assert set(acquired["call"]) == {"operator new[]"}
    assert len(acquired) == 3000
    assert worker.end() == 0


def test_the_recorder_killed_leaves_the_program_as_it_was(worker, tmp_path: Path) -> None:
    program = worker(3)
    attached = Attached(program.pid, tmp_path / "t.tape")
    keeper = attached.keeper()
    attached.process.kill()
    attached.process.communicate(timeout=HANG_S)
    wait_until(lambda: not Path(f"/proc/{keeper}").exists())
    assert redirected_references(program.pid) == 0
    again = Attached(program.pid, tmp_path / "again.tape")
    program.obey("c")
    again.stop()
    assert calls_of(requests(again.trace), "malloc", 4242) == 10_000
    assert program.end() == 0


def test_the_keeper_killed_leaves_the_program_as_it_was(worker, tmp_path: Path) -> None:
    program = worker(3)
    attached = Attached(program.pid, tmp_path / "t.tape")
    program.obey("c")  # else there may be no call, and no trace
    os.kill(attached.keeper(), signal.SIGKILL)
    attached.process.communicate(timeout=HANG_S)
    assert redirected_references(program.pid) == 0
    assert check(attached.trace)["ok"]
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


def test_both_killed_leave_a_program_that_runs_and_can_be_recorded_again(worker, tmp_path: Path) -> None:
    program = worker(3)
    attached = Attached(program.pid, tmp_path / "t.tape")
    keeper = attached.keeper()
    os.kill(keeper, signal.SIGSTOP)
    attached.process.kill()
    os.kill(keeper, signal.SIGKILL)
    attached.process.communicate(timeout=HANG_S)
    program.obey("c")
    say_recorded_by(program.pid, os.getpid())
    again = Attached(program.pid, tmp_path / "again.tape")
    assert " 0 references" not in again.output
    program.obey("c")
    again.stop()
    calls = requests(again.trace)
    assert calls_of(calls, "malloc", 4242) == 10_000
    assert [jumps(sizes) for sizes in worker_threads(calls).values()] == [[]] * 3
    assert redirected_references(program.pid) == 0
    assert program.end() == 0


def test_the_program_killed_leaves_a_trace_of_all_up_to_then(worker, tmp_path: Path) -> None:
    program = worker(2)
    attached = Attached(program.pid, tmp_path / "t.tape")
    program.obey("c")
    program.process.kill()
    attached.wait()
    assert calls_of(requests(attached.trace), "malloc", 4242) == 10_000
    assert check(attached.trace)["ok"]


def test_a_duration_ends_it(worker, tmp_path: Path) -> None:
    program = worker(1)
    output = Attached(program.pid, tmp_path / "t.tape", "--duration", "0.3").wait()
    assert "--duration is over" in output
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


# By the first argument: what sigaction leaves on the stack is in a running function's frame, as in php's server; or
# only a handler calls malloc. Ends with its standard input.
HANDLERS = """
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
static void *volatile object;
static void work(int signal) { (void)signal; object = malloc(100); free(object); }
int main(int count, char **argument) {
  (void)count;
  struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } volatile left;
  struct pollfd input = {0, POLLIN, 0};
  signal(SIGALRM, work);
  syscall(SYS_rt_sigaction, SIGALRM, NULL, &left, sizeof left.mask);
  int only_handler = argument[1][0] == 'h';
  if (only_handler) setitimer(ITIMER_REAL, &(struct itimerval){{0, 2000}, {0, 2000}}, NULL);
  if (write(1, "\\n", 1) != 1) return 1;
  while (poll(&input, 1, 1) <= 0) if (!only_handler) work(0);
  return !left.restorer;
}
"""


@pytest.fixture
def handlers(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen]]:
    program = compile_c(tmp_path / "handlers", HANDLERS, "-O1")
    started: list[subprocess.Popen] = []

    def begin(mode: str) -> subprocess.Popen:
        started.append(subprocess.Popen([program, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        assert started[-1].stdout.read(1) == b"\n"
        return started[-1]

    yield begin
    for one in started:
        one.kill()
        one.wait()


def test_what_sigaction_leaves_on_the_stack_is_no_handler(handlers, tmp_path: Path) -> None:
    process = handlers("left")
    succeed(RECORD, "--attach", str(process.pid), "-o", tmp_path / "h.tape", "--duration", "0.2")
    assert calls_of(requests(tmp_path / "h.tape"), "malloc", 100)
    process.stdin.close()
    assert process.wait(HANG_S) == 0


def test_no_library_is_loaded_in_a_handler(handlers, tmp_path: Path) -> None:
    process = handlers("handler")
    command = [RECORD, "--attach", str(process.pid), "-o", tmp_path / "h.tape"]
    recorder = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=take_interrupts)
    assert recorder.stderr.readline().endswith("no thread has called malloc at a safe moment yet: waiting for one\n")
    recorder.send_signal(signal.SIGINT)
    recorder.communicate()
    assert not library_mappings(process.pid)
    process.stdin.close()
    assert process.wait(HANG_S) == 0


def test_a_process_that_is_being_recorded_is_refused(worker, tmp_path: Path) -> None:
    program = worker(1)
    attached = Attached(program.pid, tmp_path / "t.tape")
    refused(RECORD, "--attach", str(program.pid), "-o", tmp_path / "second.tape", says="being recorded already")
    program.obey("c")
    attached.stop()
    assert calls_of(requests(attached.trace), "malloc", 4242) == 10_000


@pytest.mark.long
def test_a_hundred_recordings_leave_a_storm_unharmed(worker, tmp_path: Path) -> None:
    program, mappings = worker(6, "signals"), []
    for _ in record_in_a_storm(program, tmp_path, 100):
        mappings.append(len(Path(f"/proc/{program.pid}/maps").read_text().splitlines()))
    assert redirected_references(program.pid) == 0
    assert mappings[-1] - mappings[0] <= LEFT_MAPPED * (len(mappings) - 1), mappings
    assert program.end() == 0

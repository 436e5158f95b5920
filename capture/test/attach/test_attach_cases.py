# SPDX-License-Identifier: MIT
"""Cases of attaching: fork children, other recorders, a main thread that ends, threads in the kernel, in handlers and
at instructions that are overwritten, operators, budgets and rotating files.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from capture.test.attach.attached import (
    HANG_S,
    SOURCES,
    Attached,
    Worker,
    calls_of,
    compile_worker,
    library_mappings,
    redirected_references,
    relay_mappings,
    requests,
    text,
    wait_until,
)
from capture.test.driven import Commanded
from tests.support import CONVERT, RECORD, check, compile_c, info, refused, succeed, take_interrupts

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


def assert_recorded_for_a_moment(trace: Path, *command: str | Path) -> None:
    """A program that prints a line, and then calls malloc(100) until its input ends; it ends well."""
    with Commanded(*command) as process:
        process.answer()
        succeed(RECORD, "--attach", str(process.pid), "-o", trace, "--duration", "0.2")
        assert calls_of(requests(trace), "malloc", 100)
        assert process.end() == 0


def test_a_fork_child_that_calls_first_neither_takes_the_name_nor_ends_the_recording(worker, tmp_path: Path) -> None:
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


def test_a_main_thread_that_has_ended_hinders_nothing(worker, tmp_path: Path) -> None:
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


def test_the_end_of_a_recording_leaves_that_of_a_fork_child_by_another_recorder_alone(worker, tmp_path: Path) -> None:
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
def test_a_process_that_root_records_is_refused_to_its_user(programs, tmp_path: Path) -> None:
    program_path, plugin = programs("plain")

    def as_nobody() -> None:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)

    for folder in (program_path.parent, *program_path.parents, tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o55 != 0o55 and folder.is_relative_to("/tmp"):
            folder.chmod(0o755)
    place = tmp_path / "nobody"
    place.mkdir()
    place.chmod(0o777)
    program = subprocess.Popen(
        [program_path, "1", plugin], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=as_nobody
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


def test_a_thread_that_sleeps_in_the_kernel_is_waited_for(worker, tmp_path: Path) -> None:
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


def test_files_rotate_and_merge_into_all_calls(worker, tmp_path: Path) -> None:
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


def test_a_budget_holds_and_calls_between_bursts_are_counted(worker, tmp_path: Path) -> None:
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


def test_programs_that_an_attached_process_starts_are_not_looked_for(tmp_path: Path) -> None:
    loop = ["bash", "-c", "while env -i sleep 0.2; do echo; done"]
    with subprocess.Popen(loop, stdout=subprocess.PIPE) as shell:
        attached = Attached(shell.pid, tmp_path / "t.tape")
        for _ in range(3):
            shell.stdout.readline()
        output = attached.stop()
        shell.kill()
    assert "not recorded" not in output


@pytest.mark.parametrize("options", [("--rotate", "64K"), ()])
def test_quiet_is_quiet(worker, tmp_path: Path, options: tuple[str, ...]) -> None:
    program = worker(1)
    attached = subprocess.Popen(
        [RECORD, "--attach", str(program.pid), "-o", tmp_path / "t.tape", "--quiet", "--duration", "0.2", *options],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "1000"},
    )
    output = attached.communicate(timeout=HANG_S)[1]
    assert [line for line in output.splitlines() if "--duration is over" not in line] == []


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
    assert redirected_references(program.pid, relay_mappings) == 0
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
#include "core/test/usual.h"
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
    worker = Worker((compile_c(tmp_path / "operators", CPP, compiler="c++"), tmp_path), 0)
    attached = Attached(worker.pid, tmp_path / "t.tape")
    for _ in range(3):
        worker.obey("c")
    attached.stop()
    calls = requests(attached.trace)
    acquired = calls[calls["bytes"] == 555]
    assert set(acquired["call"]) == {"operator new[]"}
    assert len(acquired) == 3000
    assert worker.end() == 0


# By the first argument: what sigaction leaves on the stack is in a running function's frame, as in php's server; or
# only a handler calls malloc. Ends with its standard input.
HANDLERS = """
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


@pytest.fixture(scope="module")
def handlers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(tmp_path_factory.mktemp("handlers") / "handlers", HANDLERS, "-O1")


def test_what_sigaction_leaves_on_the_stack_is_no_handler(handlers, tmp_path: Path) -> None:
    assert_recorded_for_a_moment(tmp_path / "h.tape", handlers, "left")


def test_no_library_is_loaded_in_a_handler(handlers, tmp_path: Path) -> None:
    with Commanded(handlers, "handler") as process:
        process.answer()
        command = [RECORD, "--attach", str(process.pid), "-o", tmp_path / "h.tape"]
        recorder = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=take_interrupts)
        assert recorder.stderr.readline().endswith(
            "no thread has called malloc at a safe moment yet: waiting for one\n"
        )
        recorder.send_signal(signal.SIGINT)
        recorder.communicate()
        assert not library_mappings(process.pid)
        assert process.end() == 0


TRAPS = """
static void handle(int signal) { (void)signal; }
int main(int count, char **argument) {
  (void)count;
  struct sigaction given = {0}, left;
  static void *volatile object;
  struct pollfd input = {0, POLLIN, 0};
  sigset_t trap, mask;
  sigemptyset(&trap);
  sigaddset(&trap, SIGTRAP);
  given.sa_handler = strstr(argument[1], "ignored") ? SIG_IGN : strstr(argument[1], "handled") ? handle : SIG_DFL;
  sigaction(SIGTRAP, &given, NULL);
  if (strstr(argument[1], "blocked")) sigprocmask(SIG_BLOCK, &trap, NULL);
  if (strstr(argument[1], "pending")) raise(SIGTRAP);
  if (write(1, "\\n", 1) != 1) return 1;
  while (poll(&input, 1, 1) == 0) { object = malloc(100); free(object); }
  sigaction(SIGTRAP, NULL, &left);
  sigprocmask(SIG_BLOCK, NULL, &mask);
  if (left.sa_handler != given.sa_handler) return 2;
  if (sigismember(&mask, SIGTRAP) != (strstr(argument[1], "blocked") != NULL)) return 3;
  sigpending(&mask);
  return sigismember(&mask, SIGTRAP) != (strstr(argument[1], "pending") != NULL);
}
"""


@pytest.mark.parametrize(
    "trap", ["default", "ignored", "handled", "ignored, blocked", "handled, blocked", "handled, blocked, pending"]
)
def test_what_a_program_does_with_sigtrap_stays(tmp_path: Path, trap: str) -> None:
    assert_recorded_for_a_moment(tmp_path / "t.tape", compile_c(tmp_path / "traps", TRAPS, "-O1"), trap)


SIGNALS = """
static volatile int number, came, strange;
static void count(int signal, siginfo_t *from, void *context) {
  (void)signal, (void)context;
  came++;
  strange += from->si_code != SI_QUEUE || from->si_value.sival_int != number;
}
int main(void) {
  static void *volatile object;
  struct pollfd input = {0, POLLIN, 0};
  struct sigaction counted = {.sa_sigaction = count, .sa_flags = SA_SIGINFO};
  sigaction(SIGUSR1, &counted, NULL);
  if (write(1, "\\n", 1) != 1) return 1;
  while (++number % 4096 || poll(&input, 1, 0) == 0) {
    if (sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = number}) != 0) return 2;
    if (number % 64 == 0) { object = malloc(100); free(object); }
  }
  return strange || came + 1 != number;
}
"""


def test_a_thread_that_stops_at_a_signal_loads_the_library_and_gets_the_signal_whole(tmp_path: Path) -> None:
    program = compile_c(tmp_path / "signals", SIGNALS, "-O1")
    for number in range(4):  # a signal is met at one stop of five
        assert_recorded_for_a_moment(tmp_path / f"{number}.tape", program)


HOLDS = 6  # the main thread is at such instructions in about every second one


class Interrupted(Commanded):
    """interrupted.c."""

    def interrupt(self) -> None:
        """Interrupts it until it waits in the handler, after one of malloc's first instructions."""
        for _ in range(HANG_S * 100):
            self.send_signal(signal.SIGUSR1)
            if self.answers(0.01):
                return
        raise AssertionError("no signal comes at malloc's first instructions")

    def go_on(self) -> None:
        self.request("\n")

    def end(self) -> int:
        self.send_signal(signal.SIGUSR2)
        return self.wait(timeout=HANG_S)


@pytest.fixture(scope="module")
def interrupted_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sources = (SOURCES / "interrupted.c", SOURCES / "own_malloc.c")
    return compile_c(tmp_path_factory.mktemp("interrupted") / "program", *sources, "-O1", "-w", "-pthread")


@pytest.fixture
def interrupted(interrupted_program: Path) -> Iterator[Interrupted]:
    with Interrupted(interrupted_program) as program:
        program.answer()
        yield program


def test_threads_that_are_held_at_overwritten_instructions_go_on(interrupted: Interrupted, tmp_path: Path) -> None:
    before = text(interrupted.pid)
    for _ in range(HOLDS):
        attached = Attached(interrupted.pid, tmp_path / "t.tape", "--duration", "0.05", "--on-full", "drop")
        attached.wait()
        assert text(interrupted.pid) == before
    assert interrupted.end() == 0


def test_a_handler_that_is_to_come_back_to_overwritten_instructions_is_waited_for(interrupted, tmp_path):
    before = text(interrupted.pid)
    interrupted.interrupt()
    refused(RECORD, "--attach", str(interrupted.pid), "-o", tmp_path / "t.tape", says="in a signal handler?")
    assert text(interrupted.pid) == before
    interrupted.go_on()
    attached = Attached(interrupted.pid, tmp_path / "t.tape")
    interrupted.interrupt()
    interrupted.go_on()
    attached.stop_when_it_holds(1000)
    assert check(tmp_path / "t.tape")["ok"]
    assert interrupted.end() == 0


def test_a_handler_comes_back_to_a_trampoline_after_the_recording(interrupted: Interrupted, tmp_path: Path) -> None:
    before = text(interrupted.pid)
    attached = Attached(interrupted.pid, tmp_path / "t.tape")
    interrupted.interrupt()
    attached.stop_when_it_holds(1000)
    assert text(interrupted.pid) == before
    interrupted.go_on()
    interrupted.interrupt()
    interrupted.go_on()
    assert interrupted.end() == 0

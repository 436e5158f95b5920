# SPDX-License-Identifier: MIT
"""Programs that ask for filters of system calls (seccomp), set them, or are started under them: unharmed, and recorded
completely where the filters permit our calls.
"""

import platform
from collections.abc import Callable
from pathlib import Path

import pytest

from capture.test.filters import system_calls
from tests.support import RECORD, Result, check, compile_c, info, made_once, run

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the programs' calls are those of x86-64")

PAIRS = 20_000
SOURCE = Path(__file__).parents[1] / "hosts" / "filters.c"


@pytest.fixture(scope="session")
def program(tmp_path_factory) -> Path:
    return made_once(tmp_path_factory, "filters", lambda path: compile_c(path, SOURCE, "-O1", "-pthread"))


@pytest.fixture
def recorded(program: Path, tmp_path: Path) -> Callable[..., Result]:
    """Runs it bare and recorded; status and output are the same."""

    def both(*words: str | Path, options: tuple[str, ...] = (), under: tuple[str, ...] = ()) -> Result:
        bare = run(*under, program, *words)
        if bare.status == 77:
            pytest.skip("the kernel does not permit this")
        done = run(*under, RECORD, "--all-processes", *options, "-o", tmp_path / "t.tape", "--", program, *words)
        status = 128 - bare.status if bare.status < 0 else bare.status
        assert (done.status, done.stdout) == (status, bare.stdout), done.stderr
        return done

    return both


def calls(words: str) -> str:
    numbers = system_calls()
    return ",".join(numbers[name] for name in words.split())


def events(folder: Path, name: str = "filters") -> list[int]:
    """The numbers of events of that program's traces, all complete."""
    found = []
    for tape in folder.glob("*.tape"):
        checked = check(tape)
        assert checked["ok"], checked
        assert not checked["dropped"], (tape, checked)
        if info(tape)["info"]["program"] == name:
            found.append(checked["events"])
    return sorted(found)


@pytest.mark.parametrize(
    "filters",
    [*(["first", f"probe-{number}"] for number in range(8)), ["kill:"], ["kill:250", "errno:246"]],
    ids=" ".join,
)
def test_a_filter_that_is_not_set_or_permits_our_calls_changes_nothing(recorded, tmp_path, filters):
    """More threads than the process has rings at first, and a fork child."""
    recorded(*filters, "threads:30")
    child, parent = events(tmp_path)
    assert child >= 2 * PAIRS
    assert parent >= 31 * 2 * PAIRS


@pytest.mark.parametrize(
    "forbidden",
    [
        "mmap madvise",
        "futex rt_sigprocmask",
        "socket connect gettid tgkill",
        "mincore sched_yield sigaltstack openat write",
        "mmap munmap madvise futex rt_sigprocmask gettid tgkill socket connect sendto recvmsg openat read close",
    ],
)
@pytest.mark.parametrize("way", ["kill", "raw"])
@pytest.mark.parametrize("options", [(), ("--stacks", "--latency", "--usable")], ids=len)
def test_the_first_thread_is_recorded_under_any_filter(recorded, tmp_path, forbidden, way, options):
    """Although it has made no call before."""
    recorded(f"{way}:{calls(forbidden)}", "threads:0", options=options)
    assert events(tmp_path) >= [2 * PAIRS]


@pytest.mark.parametrize("forbidden", ["socket", "connect", "madvise"])
def test_threads_without_rings_and_fork_children_are_counted_where_a_filter_forbids_our_calls(
    recorded, tmp_path, forbidden
):
    way = "errno" if forbidden == "madvise" else "kill"  # the C library makes that call when a thread ends
    recorded(f"{way}:{calls(forbidden)}", "threads:30")
    all_calls = sum(check(tape)["events"] + check(tape)["dropped"] for tape in tmp_path.glob("*.tape"))
    assert all_calls >= 32 * 2 * PAIRS


def test_calls_after_the_clock_was_forbidden_are_counted_and_the_reason_is_said(recorded, tmp_path: Path) -> None:
    """Those of a fork child, too, which prints nothing."""
    done = recorded("first", "no-clock", "threads:3")
    (tape,) = tmp_path.glob("*.tape")
    said = " ".join(done.stderr.split())
    assert check(tape)["dropped"] >= 5 * 2 * PAIRS
    assert "not recorded after the program had forbidden itself the clock" in said
    assert "in pauses" not in said
    assert "this process is not recorded" not in said


@pytest.mark.parametrize(
    "forbidden",
    ["socket connect", "madvise", "sendto recvmsg", "getpid", "getppid", "gettid", "rt_sigprocmask", "prctl",
     "setsockopt", "readlinkat", "getsockopt getresuid", "fcntl", "mincore", "tgkill"],
)  # fmt: skip
@pytest.mark.parametrize("way", ["kill", "errno"])
def test_an_image_that_begins_under_a_filter_is_not_harmed(recorded, program, tmp_path, forbidden, way):
    """It is recorded, or the recorder says that it is not."""
    done = recorded(f"{way}:{calls(forbidden)}", "exec", program, "wait", "threads:0")
    assert "this process is not recorded" not in done.stderr
    traced = [number for number in events(tmp_path) if number >= 2 * PAIRS]
    said = "started under a filter of system calls" in " ".join(done.stderr.split())
    assert len(traced) == 1 or said
    if forbidden in {"prctl", "readlinkat"}:
        assert traced


def test_a_thread_that_may_not_sleep_does_not_keep_the_recorder_from_its_only_processor(recorded, tmp_path):
    recorded("first", f"kill:{calls('futex sched_yield')}", "fifo", "threads:0", under=("taskset", "-c", "0"))
    (tape,) = tmp_path.glob("*.tape")
    assert check(tape)["events"] + check(tape)["dropped"] >= 2 * PAIRS


DISPATCHED = """
static volatile char blocks;
static int arrived;
static void take(int number, siginfo_t *info, void *context) {
  greg_t *word = ((ucontext_t *)context)->uc_mcontext.gregs;
  blocks = 0;
  arrived++;
  word[REG_RAX] = syscall(word[REG_RAX], word[REG_RDI], word[REG_RSI], word[REG_RDX], word[REG_R10], word[REG_R8],
                          word[REG_R9]);
}
static void *work(void *unused) {
  for (int i = 0; i < 20000; i++) free(malloc(777));
  return unused;
}
int main(int argc, char **argv) {
  struct sigaction action = {.sa_sigaction = take, .sa_flags = SA_SIGINFO};
  pthread_t thread;
  int status;
  free(malloc(777));
  sigaction(SIGSYS, &action, NULL);
  if (prctl(59, 1, 0, 0, argc > 1 ? &blocks : NULL) != 0) return 77;
  blocks = 1;
  for (int i = 0; i < 200000; i++) free(malloc(777));
  blocks = 0;
  pthread_create(&thread, NULL, work, NULL);
  pthread_join(thread, NULL);
  if (fork() == 0) work(NULL), _exit(0);
  wait(&status);
  printf("%d %d\\n", arrived, status);
  return 5;
}
"""


def test_a_handler_of_system_calls_gets_none_of_ours(tmp_path: Path) -> None:
    """As Wine has it (syscall user dispatch); rings are filled while the calls are blocked."""
    program = compile_c(tmp_path / "dispatched", DISPATCHED, "-w", "-pthread")
    bare = run(program, "selector")
    if bare.status == 77:
        pytest.skip("the kernel has no syscall user dispatch")
    done = run(RECORD, "--all-processes", "-o", tmp_path / "t.tape", "--", program, "selector")
    assert (done.status, done.stdout) == (5, bare.stdout)
    child, parent = events(tmp_path, "dispatched")
    assert child >= 2 * 20_000
    assert parent >= 2 * 220_001

# SPDX-License-Identifier: MIT
"""Signals to the program's process group, in which the recorder is, and many processes at once."""

import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support import RECORD, check, compile_c, run

NOTIFIES = """
static volatile sig_atomic_t got;
static void note(int signal) { got++; }
static void work(void) { for (int i = 0; i < 5000; i++) { void *volatile p = malloc(60); free(p); } }
int main(int argc, char **argv) {
  int number = atoi(argv[1]);
  signal(number, note);
  setvbuf(stdout, NULL, _IONBF, 0);
  int child = fork(), status;
  if (child == 0) {
    while (!got) { free(malloc(10)); usleep(1000); }
    work();
    _exit(0);
  }
  usleep(50000);
  kill(0, number);
  waitpid(child, &status, 0);
  usleep(50000);
  work();
  printf("%d, child %d\\n", (int)got, status);
  return 7;
}
"""

MANY = """
static void work(void) { for (int i = 0; i < 500; i++) { void *volatile p = malloc(60); free(p); } }
int main(int argc, char **argv) {
  int count = atoi(argv[1]), at_once = atoi(argv[2]), go[2], good = 0, status;
  if (pipe(go) != 0) return 2;
  for (int i = 0; i < count; i++) {
    if (i >= at_once) good += wait(&status) > 0 && status == 3 << 8;
    if (fork() == 0) {
      char byte;
      close(go[1]);
      work();
      if (at_once == count && read(go[0], &byte, 1) != 0) _exit(1);
      _exit(3);
    }
  }
  if (at_once == count) sleep(1);
  close(go[1]);
  while (wait(&status) > 0) good += status == 3 << 8;
  printf("%d\\n", good);
  return 0;
}
"""


@pytest.mark.parametrize(
    "number",
    [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGTERM,
     signal.SIGPROF, signal.SIGRTMIN, signal.SIGRTMAX],
)  # fmt: skip
def test_a_signal_to_the_group_reaches_the_program_once_and_ends_no_recording(tmp_path: Path, number: int) -> None:
    program = compile_c(tmp_path / "program", NOTIFIES)
    done = run("setsid", "-w", RECORD, "--all-processes", "-o", tmp_path / "t.tape", "--", program, str(int(number)))
    assert (done.status, done.stdout) == (7, "1, child 0\n"), done.stderr
    tapes = [check(tape) for tape in tmp_path.glob("*.tape")]
    assert len(tapes) == 2
    assert all(tape["ok"] and tape["events"] >= 10_000 for tape in tapes)


COUNTS = """
static volatile sig_atomic_t got, ends;
static void note(int signal) { got++; }
static void end(int signal) { ends = 1; }
int main(int argc, char **argv) {
  signal(atoi(argv[1]), note);
  signal(SIGRTMIN, end);
  if (write(1, "\\n", 1) != 1) return 2;
  while (!ends) { void *volatile p = malloc(60); free(p); usleep(1000); }
  return got;
}
"""


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_from_elsewhere_to_the_group_reaches_the_program_once_and_one_that_is_passed_on_at_most_twice(
    tmp_path, number
):
    program = compile_c(tmp_path / "program", COUNTS)
    command = [str(word) for word in (RECORD, "-o", tmp_path / "t.tape", "--", program, int(number))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as recorder:
        assert recorder.stdout.read(1) == b"\n"
        os.killpg(recorder.pid, number)
        time.sleep(0.3)
        os.killpg(recorder.pid, signal.SIGRTMIN)
        passed_on = number in (signal.SIGTERM, signal.SIGHUP)
        assert recorder.wait() in ((1, 2) if passed_on else (1,))
    assert check(tmp_path / "t.tape")["ok"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_recorder_alone_is_passed_on(tmp_path: Path, number: int) -> None:
    waits = f"trap 'echo got; exit 9' {int(number)}; echo ready; while :; do sleep 0.01; done"
    command = [str(word) for word in (RECORD, "-o", tmp_path / "t.tape", "--", "sh", "-c", waits)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdout.readline() == "ready\n"
        recorder.send_signal(number)
        assert recorder.stdout.read() == "got\n"
        assert recorder.wait() == 9


@pytest.mark.parametrize(("count", "at_once", "descriptors"), [(800, 800, 20_000), (150, 8, 80)])
def test_many_processes_are_all_recorded(tmp_path: Path, count: int, at_once: int, descriptors: int) -> None:
    """Those for which the recorder has no descriptors wait until others have ended."""
    program = compile_c(tmp_path / "program", MANY)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < 4 * count and descriptors > count:
        pytest.skip("too few descriptors")
    limited = ("prlimit", f"--nofile={descriptors}:{descriptors}") if descriptors < count else ()
    traces = ("--all-processes", "-o", tmp_path / "t.tape")
    done = run(*limited, RECORD, *traces, "--", program, str(count), str(at_once))
    assert (done.status, done.stdout) == (0, f"{count}\n"), done.stderr
    tapes = [check(tape) for tape in tmp_path.glob("*.tape")]
    assert sum(tape["ok"] and tape["events"] >= 1000 for tape in tapes) == count

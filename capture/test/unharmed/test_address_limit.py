# SPDX-License-Identifier: MIT
"""Limits of addresses and data (ulimit -v, -d): the program finds room as without us; calls are recorded or counted."""

import re
from bisect import bisect_left
from pathlib import Path

import pytest

from tests.support import RECORD, Result, check, compile_c, need, run

LIMITED = """
static _Atomic int failed;
static pthread_barrier_t all;
static void *work(void *alone) {
  if (!alone) pthread_barrier_wait(&all);
  for (int i = 0; i < 1000; i++) { void *volatile p = malloc(100 + i); failed += !p; free(p); }
  if (!alone) pthread_barrier_wait(&all);
  return NULL;
}
int main(int count, char **argument) {
  int data = argument[1][0] == 'd';
  struct rlimit limit = {(rlim_t)atol(argument[1] + data) << 10, (rlim_t)atol(argument[1] + data) << 10};
  int threads = atoi(argument[2]);
  if (count == 3) {
    if (setrlimit(data ? RLIMIT_DATA : RLIMIT_AS, &limit) != 0) return 2;
    execl("/proc/self/exe", argument[0], argument[1], argument[2], "limited", NULL);
    return 3;
  }
  pthread_t thread[20];
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 16384);
  pthread_barrier_init(&all, NULL, threads + 1);
  for (int i = 0; i < threads; i++)
    if (pthread_create(&thread[i], &small, work, NULL) != 0) return 4;
  work(threads ? NULL : argument);
  for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
  void *volatile half = malloc(limit.rlim_cur / 2);
  printf("%d failed, half: %d\\n", failed, half != NULL);
  return failed != 0;
}
"""


TOLD = "not recorded: exe: low limits (ulimit -v, -d, -n): if they were too low for recording, they have printed what"


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(tmp_path_factory.mktemp("limited") / "program", LIMITED, "-pthread")


def record(program: Path, folder: Path, kib: int | str, threads: int) -> Result:
    """The recording's result, which is the program's without us. kib: a limit of addresses, or after a "d" of data."""
    bare = run(program, str(kib), str(threads))
    recorded = run(RECORD, "--all-processes", "-o", folder / "t.tape", "--", program, str(kib), str(threads))
    assert (recorded.status, recorded.stdout) == (bare.status, bare.stdout)
    return recorded


@pytest.mark.parametrize("threads", [0, 20])
@pytest.mark.parametrize("kib", [12_000, 20_000, 40_000])
def test_each_call_is_recorded_or_counted_and_none_fails(tmp_path: Path, limited: Path, kib: int, threads: int) -> None:
    record(limited, tmp_path, kib, threads)
    found = [check(trace) for trace in tmp_path.glob("*.tape")]
    assert all(one["ok"] for one in found)
    calls = sum(one["events"] + one.get("dropped", 0) for one in found)
    assert calls >= 2000 * (threads + 1)
    if threads == 0 or kib == 40_000:
        assert not any(one.get("dropped") for one in found)


@pytest.mark.parametrize(
    ("kib", "limited_to"),
    [("6000", "the address space is limited to 6000 KiB"), ("d1000", "data is limited to 1000 KiB")],
)
def test_a_process_without_room_is_told_how_much_is_needed(tmp_path, limited, kib, limited_to):
    said = record(limited, tmp_path, kib, 0).stderr
    assert limited_to in said
    assert TOLD in " ".join(said.split())
    assert "could not be seen" not in said
    needs = re.search(r"recording needs (\d+) KiB: this process is not recorded", said)
    assert needs
    enough = record(limited, tmp_path, f"{kib[:-4]}{int(needs[1]) + 64}", 0).stderr
    assert "recording needs" not in enough
    assert sum(check(trace)["events"] for trace in tmp_path.glob("*.tape")) >= 2000


def test_a_program_without_a_free_descriptor_is_named_with_that_reason(tmp_path: Path) -> None:
    need("prlimit")
    done = run(RECORD, "-o", tmp_path / "t.tape", "--", "prlimit", "--nofile=4", "true")
    assert done.status == 0
    assert "no file descriptor is free: this process is not recorded" in done.stderr
    assert TOLD.replace("exe", "true") in " ".join(done.stderr.split())


@pytest.mark.parametrize(("kind", "more_kib"), [("v", 420), ("d", 205)])
def test_a_program_starts_within_its_least_limit_and_the_librarys_room(tmp_path, kind, more_kib):
    """0.4 MiB of addresses, 0.2 MiB of data."""

    def starts(kib: int, *recorder: str | Path) -> bool:
        return run(*recorder, "sh", "-c", f"ulimit -S{kind} {kib}; exec printf done").stdout == "done"

    least = bisect_left(range(16 << 10), True, key=starts)
    assert not starts(least - 1)
    assert starts(least + more_kib, RECORD, "--quiet", "-o", tmp_path / "t.tape", "--")


CHILD = """
int main(void) {
  if (fork() == 0) {
    struct rlimit none = {1 << 20, RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &none);
    for (int i = 0; i < 1000; i++) { void *volatile p = malloc(100); free(p); }
    _exit(0);
  }
  wait(NULL);
  return 0;
}
"""


def test_calls_of_a_fork_child_that_limits_itself_are_counted_and_it_prints_nothing(tmp_path: Path) -> None:
    program = compile_c(tmp_path / "limits", CHILD)
    done = run(RECORD, "-o", tmp_path / "t.tape", "--", program)
    assert "not recorded: limits: fork children" in done.stderr
    assert "this process is not recorded" not in done.stderr
    assert check(tmp_path / "t.tape")["dropped"] == 2000

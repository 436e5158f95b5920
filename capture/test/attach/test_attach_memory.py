# SPDX-License-Identifier: MIT
"""The library's memory in a process that is attached to: not locked with the program's."""

import re
import subprocess
from pathlib import Path

import pytest

from capture.test.attach.attached import HANG_S, Attached
from capture.test.unharmed.test_own_memory import WAITS_TWICE, reads_kib
from tests.support import check, compile_c

RELAY_KIB = 8
LOCKS_LATER = (
    """
#include "core/test/usual.h"
#include <linux/capability.h>
"""
    + reads_kib("locked", "VmLck")
    + WAITS_TWICE
    + """
/* Locks when a line comes; "early": at once. The limit is less than our memory and its own. */
int main(int argc, char **argv) {
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
  struct rlimit limit = {4 << 20, 4 << 20};
  struct pollfd input = {0, POLLIN, 0};
  int flags = atoi(argv[1]), early = argc > 2, result = 0;
  static pthread_barrier_t barrier; // threads may still be leaving it when main has returned
  pthread_t thread[20];
  pthread_attr_t small;
  setvbuf(stdout, NULL, _IONBF, 0);
  setrlimit(RLIMIT_MEMLOCK, &limit);
  if (syscall(SYS_capset, &head, none) != 0 || (early && mlockall(flags) != 0)) return 77;
  puts("begun");
  while (poll(&input, 1, 1) == 0) free(malloc(100));
  long before = locked();
  if (!early) {
    result = mlockall(flags);
    before = locked();
  }
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 16384);
  pthread_barrier_init(&barrier, NULL, 21);
  for (int i = 0; i < 20; i++)
    if (pthread_create(&thread[i], &small, work, &barrier) != 0) return 3;
  pthread_barrier_wait(&barrier);
  printf("%d, %ld KiB, then %ld more\\n", result, before, locked() - before);
  pthread_barrier_wait(&barrier);
  return 0;
}
"""
)


@pytest.fixture(scope="module")
def locks_later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(tmp_path_factory.mktemp("later") / "program", LOCKS_LATER, "-pthread")


def numbers(line: str) -> list[int]:
    return [int(word) for word in re.findall(r"\d+", line)]


def locked_when_attached(program: Path, trace: Path | None, *words: str) -> str:
    environment = {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}
    with subprocess.Popen(
        [program, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout.readline() == "begun\n"
        recorder = Attached(process.pid, trace) if trace else None
        result = process.communicate("\n", timeout=HANG_S)[0]
        assert process.returncode == 0
    if recorder:
        recorder.wait()
    return result


@pytest.mark.parametrize("words", ["1", "2", "3", "7", "3 early", "7 early"])
def test_mlockall_in_an_attached_process_does_as_without_us(locks_later, tmp_path, words):
    """The same result and locked memory but for the relay, though the limit is less than our memory; if it was called
    early, before attaching, but for what dlopen maps besides our library's segments, too.
    """
    traces = (None, tmp_path / "t.tape")
    bare, recorded = (numbers(locked_when_attached(locks_later, trace, *words.split())) for trace in traces)
    assert bare[0] == recorded[0] == 0
    assert 0 <= recorded[1] - bare[1] <= RELAY_KIB + (64 if "early" in words else 0)
    assert recorded[2] == bare[2]
    assert check(tmp_path / "t.tape")["threads"] == 21

# SPDX-License-Identifier: MIT
"""The library's memory in the program: not in core dumps, not locked with the program's."""

from pathlib import Path

import pytest

from tests.support import RECORD, compile_c, succeed

LOCKS = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static void *work(void *barrier) {
  for (int i = 0; i < 100; i++) { void *volatile p = malloc(60); free(p); }
  pthread_barrier_wait(barrier);
  return NULL;
}
int main(int argc, char **argv) {
  pthread_barrier_t barrier;
  pthread_t threads[30];
  char line[4096];
  unsigned long first, end;
  int ours = 0, dumped = 0, locked = 0, is_ours = 0;
  if (mlockall(atoi(argv[1])) != 0) return 77;
  pthread_barrier_init(&barrier, NULL, 31);
  for (int i = 0; i < 30; i++)
    if (pthread_create(&threads[i], NULL, work, &barrier) != 0) return 2;
  work(&barrier);
  FILE *file = fopen("/proc/self/smaps", "r");
  while (fgets(line, sizeof line, file)) {
    if (sscanf(line, "%lx-%lx", &first, &end) == 2)
      is_ours = strstr(line, " rw") && strstr(line, "memfd:heaptape");
    if (strncmp(line, "VmFlags:", 8) || !is_ours) continue;
    ours++;
    dumped += !strstr(line, " dd");
    locked += strstr(line, " lo") != NULL;
  }
  printf("%d %d %d\\n", ours > 1, dumped, locked);
  return 0;
}
"""


@pytest.mark.parametrize("flags", [0o1, 0o2, 0o3])
def test_rings_are_neither_dumped_nor_locked_with_the_program(tmp_path: Path, flags: int) -> None:
    """Not those that are mapped later, either."""
    program = compile_c(tmp_path / "program", LOCKS, "-pthread")
    done = succeed(RECORD, "-o", tmp_path / "t.tape", "--", program, str(flags))
    assert done.stdout == "1 0 0\n"

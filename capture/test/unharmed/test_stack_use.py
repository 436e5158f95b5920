# SPDX-License-Identifier: MIT
"""How much more of its stack a call of the malloc API needs than without us."""

from pathlib import Path

import pytest

from tests.support import RECORD, compile_c, succeed

MEASURES = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
enum { BYTES = 65536 };
static char stack[BYTES] __attribute__((aligned(16)));
static ucontext_t main_context, fiber;
static int calls;
static void work(void) {
  for (int i = 0; i < calls; i++) { void *volatile p = malloc(100 + i % 3); free(p); }
}
static int used_by(int count) {
  int untouched = 0;
  calls = count;
  memset(stack, 0x5a, BYTES);
  getcontext(&fiber);
  fiber.uc_stack.ss_sp = stack;
  fiber.uc_stack.ss_size = BYTES;
  fiber.uc_link = &main_context;
  makecontext(&fiber, work, 0);
  swapcontext(&main_context, &fiber);
  while (stack[untouched] == 0x5a) untouched++;
  return BYTES - untouched;
}
int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  free(malloc(10));
  printf("%d ", used_by(100000));
  if (fork() == 0) { printf("%d\\n", used_by(1)); _exit(0); }
  wait(NULL);
  return 0;
}
"""


@pytest.mark.parametrize(
    ("options", "most"), [((), (0.7, 1.6)), (("--stacks", "--latency", "--usable"), (1, 1.6))], ids=["plain", "columns"]
)
def test_a_call_needs_little_more_of_the_stack_and_the_first_of_a_fork_child_too(
    tmp_path: Path, options: tuple[str, ...], most: tuple[float, float]
) -> None:
    """As docs/use/RECORDING.md has it, in KiB."""
    program = compile_c(tmp_path / "measures", MEASURES, "-O1")
    bare = [int(word) for word in succeed(program).stdout.split()]
    recorded = [
        int(word) for word in succeed(RECORD, *options, "-o", tmp_path / "t.tape", "--", program).stdout.split()
    ]
    for more, limit in zip((there - here for here, there in zip(bare, recorded, strict=True)), most, strict=True):
        assert more <= limit * 1024, (bare, recorded)

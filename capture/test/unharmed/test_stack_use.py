# SPDX-License-Identifier: MIT
"""How much more of its stack a call of the malloc API needs than without us."""

import pytest

from tests.support import RECORD, compile_c, succeed

MEASURES = """
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


# An allocator in the executable, whose functions are redirected.
OWN_MALLOC = """
static char arena[1 << 26] __attribute__((aligned(16)));
static size_t used;
static volatile size_t freed;
void *malloc(size_t bytes) {
  char *object = arena + (used = (used + 31) % (1 << 25) & ~(size_t)15);
  used += bytes;
  return object;
}
void free(void *object) {
  freed += object != NULL;
  freed ^= (size_t)object >> 4;
}
"""
PLAIN, COLUMNS, LIBUNWIND = (), ("--stacks", "--latency", "--usable"), ("--stacks", "--unwind", "libunwind")
LINKED_KIB = 3


@pytest.mark.parametrize(
    ("own", "options", "most"),
    [
        pytest.param("", PLAIN, (0.7, 1.6), id="plain"),
        pytest.param("", COLUMNS, (1.2, 1.6), id="columns"),
        pytest.param("", LIBUNWIND, (5.4, 5.4), id="libunwind"),
        pytest.param(OWN_MALLOC, PLAIN, (0.7 + LINKED_KIB, 1.6 + LINKED_KIB), id="in the executable"),
        pytest.param(OWN_MALLOC, COLUMNS, (1.2 + LINKED_KIB, 1.6 + LINKED_KIB), id="in the executable, columns"),
    ],
)
def test_a_call_needs_little_more_of_the_stack_and_the_first_of_a_fork_child_too(tmp_path, own, options, most):
    """As docs/use/RECORDING.md has it, in KiB. Bound at once, as the dynamic linker takes more to bind a function."""
    program = compile_c(tmp_path / "measures", MEASURES + own, "-O1", "-Wl,-z,now")
    bare = [int(word) for word in succeed(program).stdout.split()]
    done = succeed(RECORD, *options, "-o", tmp_path / "t.tape", "--", program)
    assert "not recorded" not in done.stderr
    recorded = [int(word) for word in done.stdout.split()]
    used = [there - here for here, there in zip(bare, recorded, strict=True)]
    assert all(more <= limit * 1024 for more, limit in zip(used, most, strict=True)), (bare, recorded)

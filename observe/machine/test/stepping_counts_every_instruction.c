/* SPDX-License-Identifier: MIT */
/* Stepping counts each instruction once: a loop with a known number of instructions has exactly that count, and timed
   code has as many instructions as its text shows. */
#include "core/test/check.h"
#include "observe/machine/code.h"

/* Two instructions in each iteration. */
static void count_down(unsigned times) {
  unsigned left = times + 1;
#if defined(__x86_64__)
  __asm__ volatile("1: dec %0\n jnz 1b" : "+r"(left)::"cc");
#else
  __asm__ volatile("1: subs %w0, %w0, #1\n b.ne 1b" : "+r"(left)::"cc");
#endif
}

static void die(unsigned how) {
  if (how)
    abort();
}

int main(void) {
  int64_t none = stepping_count(count_down, 0);
  if (none < 0) {
    puts("a child can't be traced here");
    return 77;
  }
  CHECK(stepping_count(count_down, 1) == none + 2);
  CHECK(stepping_count(count_down, 1000) == none + 2000);
  CHECK(stepping_count(die, 1) == -1);
  /* The additions, and a few of the loop. */
  double cycle = code_instructions(&codes[CODE_CYCLE]);
  CHECK(cycle >= CODE_CYCLES_EACH && cycle < CODE_CYCLES_EACH * 2);
  return 0;
}

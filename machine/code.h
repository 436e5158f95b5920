/* SPDX-License-Identifier: MIT */
/* Code that misses in no cache, for the time of an instruction: from code that a processor runs at its best, to an
   interpreter and an allocator.

   Job: the codes, and how many instructions so many iterations of each have: counted by stepping through them one by
   one, which needs no counter of the processor's. Not thread-safe. */
#pragma once

struct code {
  const char *name;
  void (*run)(unsigned iterations); /* goes on where the last run ended */
  unsigned counted_iterations;      /* enough for a mean; stepping takes some microseconds for each instruction */
};

/* cycle: one addition after the other, CODE_CYCLES_EACH in an iteration, each a cycle of the processor's.
   arithmetic: several sums at a time. interpreter: byte codes that branch as their data say. allocator: malloc and free
   of this process's allocator, of sizes at random, over few objects. */
enum { CODE_CYCLE, CODE_ARITHMETIC, CODE_INTERPRETER, CODE_ALLOCATOR, CODE_COUNT, CODE_CYCLES_EACH = 64 };
extern const struct code codes[CODE_COUNT];

/* Instructions per iteration, the mean of the next code->counted_iterations; negative: a child can't be traced here. */
double code_instructions(const struct code *code);

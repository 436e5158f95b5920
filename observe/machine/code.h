/* SPDX-License-Identifier: MIT */
/* Code without cache misses, for the time of an instruction: from code that a processor runs at full speed, to an
   interpreter and an allocator.

   Job: the codes, and the number of instructions in some iterations of each, counted by stepping through them one by
   one, which needs no hardware counter. Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct code {
  const char *name;
  void (*run)(unsigned iterations); /* continues where the last run ended */
  unsigned counted_iterations;      /* enough for a mean; stepping takes a few microseconds for each instruction */
};

/* cycle: one addition after the other, CODE_CYCLES_EACH in an iteration, each one processor cycle. arithmetic: several
   sums at a time. interpreter: byte codes that branch depending on data. allocator: malloc and free of this process's
   allocator, with random sizes, over few objects. fill and copy: one repeated string instruction (rep stosb, rep movsb)
   over CODE_STRING_BYTES in the first-level cache, or over one line: what starting it costs. */
enum {
  CODE_CYCLE,
  CODE_ARITHMETIC,
  CODE_INTERPRETER,
  CODE_ALLOCATOR,
  CODE_INSTRUCTIONS, /* of those before, instructions are counted */
  CODE_FILL_LINE = CODE_INSTRUCTIONS,
  CODE_FILL,
  CODE_COPY_LINE,
  CODE_COPY,
  CODE_COUNT
};
enum { CODE_CYCLES_EACH = 64, CODE_STRING_BYTES = 8192, CODE_STRING_LINE_BYTES = 64 };
extern const struct code codes[CODE_COUNT];

/* Instructions per iteration, the mean of the next code->counted_iterations; negative: a child can't be traced on this
   machine. */
double code_instructions(const struct code *code);

/* The dynamic linker's code, which a process executes when it starts: code and data that are touched for the first
   time. One sample: a library (loaded/library.c) is loaded and unloaded again, with its symbols looked up or without;
   the difference is the lookups alone, and the rest is page faults and LOADING_CALLS system calls: openat, read,
   newfstatat, four of mmap, close, mprotect and munmap. */

enum { LOADING_LOOKUPS = 1024, LOADING_COUNTED_LOOKUPS = 64, LOADING_CALLS = 10 };

struct loading {
  double cpu_ns;
  long faults;
};

/* Loads and unloads the library once. */
struct loading loading_sample(const char *library, bool with_lookups);

/* Instructions of the lookups of one load, from the mean of LOADING_COUNTED_LOOKUPS; negative: a child can't be traced
   on this machine, or the library can't be loaded lazily. */
double loading_instructions(const char *library);

/* Counts the instructions of a call by stepping through it in a child process, one instruction at a time. */

/* Runs call(argument) in a fork of this process and returns how many instructions that took, including some around it,
   which are the same for each call; -1: the child could not be traced, or died. Changes that the call makes are lost
   with the child. */
int64_t stepping_count(void (*call)(unsigned), unsigned argument);

/* Reproducible random numbers: xorshift64. *state must not be 0. Pure. */

static inline uint64_t random_next(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

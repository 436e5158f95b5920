/* SPDX-License-Identifier: MIT */
/* Prints the instructions of each path through a hook of an allocator in the executable, a line "loop:instructions" per
   loop, bare or recorded: tests/bench/recording/linked_instructions.py links it with allocators. Valgrind hides the
   executable from the recorder, so the program counts its own single steps (SIGTRAP, by the trap flag): all
   instructions of the process between two places. As steps outlast the recorder's tick, the recorder, which is the
   parent of a run with an argument, is stopped meanwhile. Of each length of a loop the median of all batches is taken;
   the difference is that of the further rounds. */
#include "capture/bench/loops.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { FEW = 2, MANY = 5, BATCHES = 3 };

static volatile long steps;

static void step(int signal) {
  (void)signal;
  steps++;
}

#define STEP(change) "lea -128(%%rsp), %%rsp\n\tpushfq\n\t" change ", (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp"

static int compare(const void *a, const void *b) {
  long one = *(const long *)a, other = *(const long *)b;
  return (one > other) - (one < other);
}

static long median_steps(void (*loop)(int rounds), int rounds) {
  long counts[BATCHES];
  for (int i = 0; i < BATCHES; i++) {
    steps = 0;
    __asm__ volatile(STEP("orq $0x100")::: "memory", "cc");
    loop(rounds);
    __asm__ volatile(STEP("andq $-0x101")::: "memory", "cc");
    counts[i] = steps;
  }
  qsort(counts, BATCHES, sizeof *counts, compare);
  return counts[BATCHES / 2];
}

int main(int count, char **arguments) {
  (void)arguments;
  static const struct {
    const char *name;
    void (*run)(int rounds);
  } loops[] = {{"malloc, free", malloc_free},           {"calloc, free", calloc_free},
               {"aligned_alloc, free", memalign_free},  {"new, delete", new_delete},
               {"new, sized delete", new_delete_sized}, {"realloc in place", realloc_in_place}};
  signal(SIGTRAP, step);
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
    loops[i].run(MANY);
    if (count > 1)
      kill(getppid(), SIGSTOP);
    malloc_free(1); /* where the tick has advanced, this takes the stamp */
    long few = median_steps(loops[i].run, FEW), many = median_steps(loops[i].run, MANY);
    if (count > 1)
      kill(getppid(), SIGCONT);
    printf("%s:%.1f\n", loops[i].name, (double)(many - few) / (MANY - FEW));
  }
  return 0;
}

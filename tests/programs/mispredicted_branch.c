/* SPDX-License-Identifier: MIT */
/* Prints the cost of a mispredicted branch on this machine, in ns of CPU time: the same loop over random bits, half of
   whose branches are mispredicted, and over zeros; the least of ROUNDS for each. For bench/time/bounds.py. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BRANCHES = 1 << 20, ROUNDS = 60 };

static uint8_t taken[BRANCHES];

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

#if defined(__x86_64__)
#define ADD(number, sum) __asm__ volatile("add $" #number ", %0" : "+r"(sum))
#else
#define ADD(number, sum) __asm__ volatile("add %0, %0, #" #number : "+r"(sum))
#endif

/* Ns for each branch. The additions are assembly, so that no conditional move replaces the branch. */
static double run_ns(void) {
  uint64_t one = 0, other = 0;
  double begin_ns = now_ns();
  for (int i = 0; i < BRANCHES; i++) {
    if (taken[i])
      ADD(1, one);
    else
      ADD(3, other);
  }
  return (now_ns() - begin_ns) / BRANCHES;
}

static double least_ns(unsigned mask) {
  double least = 1e9;
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < BRANCHES; i++)
      taken[i] = (uint8_t)((unsigned)rand() >> 13 & mask);
    double found = run_ns();
    least = found < least ? found : least;
  }
  return least;
}

int main(void) {
  double foreseen_ns = least_ns(0), random_ns = least_ns(1);
  printf("%.2f\n", 2 * (random_ns - foreseen_ns));
  return 0;
}

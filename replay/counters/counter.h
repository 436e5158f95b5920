/* SPDX-License-Identifier: MIT */
/* What timing a call costs by itself: readings of the counter around an empty one.

   Job: collect such readings and say what they come to. Not its job: when they are taken (timing.h: all through the
   run, where the timed calls are). With an empty call and not with nothing, as between fences a call costs some 6
   cycles that overlap with other work in a program: without it the sum of timed calls was 1.8 times what the bare pass
   says they cost. The mean, as a counter may advance in steps (26 cycles on one AMD server), where the median of a call
   and of nothing alike is whole steps. How the readings themselves are made, and why: call.h. No allocation; one
   writer. */
#pragma once

#include <stdint.h>

enum { EMPTY_CYCLES = 1024 };

/* All-zero memory is an empty one. */
struct empty_calls {
  uint64_t counts[EMPTY_CYCLES]; /* by cycles */
  uint64_t longer;
};

static inline void empty_calls_add(struct empty_calls *empty, uint64_t cycles) {
  if (cycles < EMPTY_CYCLES)
    empty->counts[cycles]++;
  else
    empty->longer++;
}

void empty_calls_merge(struct empty_calls *into, const struct empty_calls *from);

/* Takes 20,001 readings at once, a few milliseconds: for runs too short to have enough of their own. */
void empty_calls_take(struct empty_calls *empty);

struct overhead {
  double mean_cycles, standard_error_cycles;
  double deviation_cycles; /* of single readings from one another: their standard deviation */
  uint64_t samples;
  uint64_t left_out;    /* of more than twice the median: interrupted */
  uint64_t step_cycles; /* greatest common divisor of all readings: how finely the counter can tell */
};

/* All 0 for no samples. */
struct overhead empty_calls_overhead(const struct empty_calls *empty);

/* SPDX-License-Identifier: MIT */
/* The cost of timing a call: readings of the counter around an empty call.

   Job: collect such readings and summarise them. Not its job: when they are taken (timing.h: all through the run, among
   the timed calls). The readings are around an empty call, not around nothing: between fences a call costs about 6
   cycles that overlap with other work in a program. Without the call, the sum of timed calls was 1.8 times their cost
   in the bare pass. The mean is used, as a counter may advance in steps (26 cycles on one AMD server); then the medians
   of a call and of nothing are both whole steps. How the readings themselves are made, and why: call.h. No allocation;
   one writer. */
#pragma once

#include <stdint.h>

enum { EMPTY_CYCLES = 1024 };

/* All-zero memory is an empty struct. */
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

/* Takes 20,001 readings in a few milliseconds: for runs too short to have enough among their calls. */
void empty_calls_take(struct empty_calls *empty);

struct overhead {
  double mean_cycles, standard_error_cycles;
  double deviation_cycles; /* of single readings from one another: their standard deviation */
  uint64_t samples;
  uint64_t left_out;    /* readings of more than twice the median: interrupted */
  uint64_t step_cycles; /* greatest common divisor of all readings: the counter's resolution */
};

/* Returns zeroes if there are no samples. */
struct overhead empty_calls_overhead(const struct empty_calls *empty);

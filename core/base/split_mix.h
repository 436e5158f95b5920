/* SPDX-License-Identifier: MIT */
/* SplitMix64: reproducible random numbers.

   Job: the mixing, and the step of its counter: the n-th number of a seed is split_mix(seed + n * SPLIT_MIX_STEP). Not
   its job: a distribution. A bijection: counters that are close give numbers whose bits differ
   widely. Any thread, any signal handler. */
#pragma once

#include <stdint.h>

#define SPLIT_MIX_STEP 0x9e3779b97f4a7c15u

static inline uint64_t split_mix(uint64_t bits) {
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
  return bits ^ bits >> 31;
}

/* The next number of a sequence, whose counter may begin anywhere. */
static inline uint64_t split_mix_next(uint64_t *counter) {
  return split_mix(*counter += SPLIT_MIX_STEP);
}

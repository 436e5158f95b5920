/* SPDX-License-Identifier: MIT */
/* A log-linear histogram of cycle counts, fixed in size, for the engine's hot path.

   Job: count values and compute percentiles. Not its job: threads (one writer per histogram), output.
   Invariants: values below 64 are exact; above, a bucket's width is at most 1/32 of its lower bound; values of 2^40 and
   more count in the last bucket. All-zero memory is an empty histogram. Not libhdrhistogram, as that is not packaged
   for Debian 12 and allocates. Safe anywhere: no allocation, no I/O. */
#pragma once

#include "core/base/assert.h"

#include <stdint.h>

enum {
  HISTOGRAM_SUB_BITS = 5, /* 32 buckets to the octave */
  HISTOGRAM_VALUE_BITS = 40,
  HISTOGRAM_BUCKETS = (HISTOGRAM_VALUE_BITS - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS,
};

struct histogram {
  uint64_t counts[HISTOGRAM_BUCKETS];
};

/* Returns the bucket of a value. Values 0 .. 63 have a bucket each; 64 and 65 share the next one. */
static inline unsigned histogram_bucket(uint64_t value) {
  if (value >= (uint64_t)1 << HISTOGRAM_VALUE_BITS)
    return HISTOGRAM_BUCKETS - 1;
  if (value < (2u << HISTOGRAM_SUB_BITS))
    return (unsigned)value;
  unsigned shift = 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
  return (shift << HISTOGRAM_SUB_BITS) + (unsigned)(value >> shift);
}

static inline void histogram_add(struct histogram *histogram, uint64_t value) {
  HT_ASSERT(histogram_bucket(value) < HISTOGRAM_BUCKETS);
  histogram->counts[histogram_bucket(value)]++;
}

/* Returns the smallest value of the bucket. */
uint64_t histogram_lower(unsigned bucket);

void histogram_merge(struct histogram *into, const struct histogram *from);

/* Returns the value that a share (0 .. 1) of all values does not exceed: the middle of its bucket; 0 for an empty
   histogram. */
uint64_t histogram_percentile(const struct histogram *histogram, double share);

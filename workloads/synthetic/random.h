/* SPDX-License-Identifier: MIT */
/* Reproducible random numbers, and the distributions that patterns draw sizes from. Static inline, one state per
   thread. */
#pragma once

#include "core/base/split_mix.h"

#include <stddef.h>
#include <stdint.h>

/* xorshift64*, one state per thread. */
struct rng {
  uint64_t state;
};

/* Streams of one seed differ. */
static inline struct rng rng_seed(uint64_t seed, uint64_t stream) {
  uint64_t mixed = split_mix(seed + (stream + 1) * SPLIT_MIX_STEP);
  return (struct rng){mixed ? mixed : 1};
}

static inline uint64_t rng_next(struct rng *rng) {
  rng->state ^= rng->state >> 12;
  rng->state ^= rng->state << 25;
  rng->state ^= rng->state >> 27;
  return rng->state * 0x2545f4914f6cdd1du;
}

/* 0 <= result < limit, limit > 0. */
static inline uint64_t rng_below(struct rng *rng, uint64_t limit) {
  return (uint64_t)(((unsigned __int128)rng_next(rng) * limit) >> 64);
}

/* lowest <= result <= highest. */
static inline uint64_t rng_between(struct rng *rng, uint64_t lowest, uint64_t highest) {
  return lowest + rng_below(rng, highest - lowest + 1);
}

/* A size with a uniform logarithm: as many of 16 to 32 bytes as of 16 to 32 KiB. limit_bits <= 63. */
static inline size_t rng_log_size(struct rng *rng, unsigned limit_bits) {
  unsigned bits = (unsigned)rng_below(rng, limit_bits);
  return ((size_t)1 << bits) + rng_below(rng, (uint64_t)1 << bits);
}

/* log2 in steps of 2^-32, linear between powers of two; and back. value > 0. */
static inline uint64_t rng_log2(uint64_t value) {
  unsigned bits = 63 - (unsigned)__builtin_clzll(value);
  uint64_t rest = value - ((uint64_t)1 << bits);
  return ((uint64_t)bits << 32) + (bits > 32 ? rest >> (bits - 32) : rest << (32 - bits));
}
static inline uint64_t rng_exp2(uint64_t log) {
  unsigned bits = (unsigned)(log >> 32);
  uint64_t rest = (uint32_t)log;
  return ((uint64_t)1 << bits) + (bits > 32 ? rest << (bits - 32) : rest >> (32 - bits));
}

/* lowest <= result <= highest, with a uniform logarithm; 0 < lowest. */
static inline uint64_t rng_log_between(struct rng *rng, uint64_t lowest, uint64_t highest) {
  return rng_exp2(rng_between(rng, rng_log2(lowest), rng_log2(highest)));
}

/* SPDX-License-Identifier: MIT */
/* Reproducible random numbers: xorshift64. *state must not be 0. Pure. */
#pragma once

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

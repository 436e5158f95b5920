/* SPDX-License-Identifier: MIT */
/* Used by all of the allocator's code: branch hints, and the alignment of every object. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* On the declaration of a variable: it is of this library, so accessing it does not go through the GOT. */
#define HIDDEN __attribute__((visibility("hidden")))

enum { OBJECT_ALIGNMENT = 16 };

static inline bool is_aligned(const void *object) {
  return ((uintptr_t)object & (OBJECT_ALIGNMENT - 1)) == 0;
}

/* Rounds up to a multiple of a power of two. */
static inline size_t round_up(size_t value, size_t power) {
  return (value + power - 1) & ~(power - 1);
}

/* SPDX-License-Identifier: MIT */
/* What a test program needs: a check that prints and exits on failure, and reproducible random numbers. */
#pragma once

#include "core/base/split_mix.h"
#include "core/test/usual.h"

/* The arguments after the condition are as for printf. */
#define CHECK(condition, ...)                                                                                          \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: %s does not hold", __FILE__, __LINE__, #condition);                                      \
      __VA_OPT__(fputs(": ", stderr); fprintf(stderr, __VA_ARGS__);)                                                   \
      fputc('\n', stderr);                                                                                             \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

static inline uint64_t test_below(uint64_t *counter, uint64_t limit) {
  return split_mix_next(counter) % limit;
}

/* SPDX-License-Identifier: MIT */
/* One access of the accesses pass.

   Job: read a byte, and if it is 0, write another value. The stream doesn't say which accesses were writes. Nearly all
   programs write fresh memory before they read it; if it were only read here, the kernel would map its one page of
   zeroes for all of it, and no access would miss a cache. A separate header, because the engine of the tests replaces
   it (replay/test/programs/planted_clock.h). */
#pragma once

#include <stdint.h>

/* Returns the byte read. at: memory that may be written, and that nothing else writes meanwhile. */
static inline __attribute__((always_inline)) uint8_t access_byte(volatile uint8_t *at) {
  uint8_t value = *at;
  if (__builtin_expect(value == 0, 0))
    *at = 1;
  return value;
}

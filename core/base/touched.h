/* SPDX-License-Identifier: MIT */
/* Which parts of a large object a program touched: what decides how many huge pages it gets.

   An object has at most TOUCHED_PARTS parts of a power of two bytes, at least TOUCHED_PART_MIN_BYTES; bit i of a map is
   set if part i, counted from the object's first byte, has a touched OS page. A map of 0: the OS pages were touched
   from the object's start on, or it is not known where. Smaller objects than TOUCHED_PARTS_MIN_BYTES have none: a huge
   page is of several of them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Of smaller objects than TOUCHED_MIN_BYTES it is not recorded by default, and workloads do not have it: an object of
   this size always holds a whole OS page. TOUCH_STEP_BYTES: of the OS pages in which it is counted. */
enum { TOUCHED_MIN_BYTES = 8 << 10, TOUCH_STEP_BYTES = 4096 };
enum { TOUCHED_PARTS = 32, TOUCHED_PART_MIN_BYTES = 64 << 10, TOUCHED_PARTS_MIN_BYTES = 512 << 10 };

struct touched {
  uint32_t os_pages, parts;
};

/* log2 of a part's bytes. */
static inline unsigned touched_part_shift(uint64_t object_bytes) {
  unsigned shift = 16;
  while (object_bytes > (uint64_t)TOUCHED_PARTS << shift)
    shift++;
  return shift;
}

/* The map of an object whose first `bytes` bytes were touched. */
static inline uint32_t touched_prefix(uint64_t bytes, unsigned part_shift) {
  uint64_t parts = (bytes >> part_shift) + ((bytes & ((1ull << part_shift) - 1)) != 0);
  return parts >= TOUCHED_PARTS ? UINT32_MAX : (1u << parts) - 1;
}

/* Can a map be that of an object of so many bytes, of which so many OS pages were touched? */
static inline bool touched_is_possible(uint64_t object_bytes, struct touched touched) {
  return !touched.parts ||
         (object_bytes >= TOUCHED_PARTS_MIN_BYTES && (uint32_t)__builtin_popcount(touched.parts) <= touched.os_pages &&
          !(touched.parts & ~touched_prefix(object_bytes, touched_part_shift(object_bytes))));
}

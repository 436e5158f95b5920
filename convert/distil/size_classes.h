/* SPDX-License-Identifier: MIT */
/* Classes of request sizes, four to a doubling: 0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, ... bytes and more; the
   last has no end. Any thread. */
#ifndef CONVERT_DISTIL_SIZE_CLASSES_H
#define CONVERT_DISTIL_SIZE_CLASSES_H

#include <stdint.h>

enum { SIZE_CLASSES = 128 };

static inline unsigned size_class(uint64_t bytes) {
  if (bytes < 4)
    return (unsigned)bytes;
  unsigned doubling = 63 - (unsigned)__builtin_clzll(bytes);
  unsigned class = 4 * (doubling - 1) + (unsigned)(bytes >> (doubling - 2) & 3);
  return class < SIZE_CLASSES ? class : SIZE_CLASSES - 1;
}

static inline uint64_t size_class_first(unsigned class) {
  return class < 4 ? class : (4ull + class % 4) << (class / 4 - 1);
}

#endif

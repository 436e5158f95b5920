/* SPDX-License-Identifier: MIT */
#include "allocators/magazine/zone/class.h"

uint8_t class_numbers[SMALL_MAX_BYTES / CLASS_STEP_BYTES + 1];
uint32_t class_bytes[CLASSES];

void class_setup(void) {
  size_t at = 0; /* units of 16 bytes that have a class */
  uint32_t bytes = 0;
  for (unsigned number = 0; number < CLASSES; number++) {
    /* The step is an eighth of the power of two that the last class reached. */
    uint32_t power = bytes < 128 ? 128 : 1u << (31 - __builtin_clz(bytes));
    bytes += power / 8;
    class_bytes[number] = bytes;
    for (; at <= bytes / CLASS_STEP_BYTES; at++)
      class_numbers[at] = (uint8_t)number;
  }
}

/* SPDX-License-Identifier: MIT */
/* Size classes: multiples of 16 up to 128 bytes, then eight per doubling, up to SMALL_MAX_BYTES. */
#pragma once

#include "allocators/magazine/zone/zone.h"

enum { CLASS_STEP_BYTES = 16, CLASS_ALIGNMENT_MAX = 4096 };

/* class_numbers[n]: number of the class for n * 16 bytes. */
extern uint8_t class_numbers[SMALL_MAX_BYTES / CLASS_STEP_BYTES + 1] HIDDEN;
extern uint32_t class_bytes[CLASSES] HIDDEN;

/* object_bytes: at most SMALL_MAX_BYTES. */
static inline unsigned class_for(size_t object_bytes) {
  return class_numbers[(object_bytes + CLASS_STEP_BYTES - 1) / CLASS_STEP_BYTES];
}

/* All objects of the class are at multiples of this: a power of two. */
static inline uint32_t class_alignment(unsigned number) {
  uint32_t power = class_bytes[number] & -class_bytes[number];
  return power < CLASS_ALIGNMENT_MAX ? power : CLASS_ALIGNMENT_MAX;
}

/* Call before anything else here. */
void class_setup(void);

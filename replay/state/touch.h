/* SPDX-License-Identifier: MIT */
/* Writes to objects as a program would, so that their memory becomes resident.

   Job: decide which bytes of a new object, or of the grown part of a reallocated one, are written. Always outside timed
   calls. Policies: `recorded`: as many OS pages from the start as the program was seen to have touched, where the
   workload says, else as `lines` and a byte of each OS page of the first TOUCH_WHOLE_BYTES, as programs fill what they
   ask for, large buffers aside; `lines`: a byte in every 64 up to touch_bound_bytes (256 unless asked otherwise);
   `first`: the first byte; `pages`: a byte of each OS page; `all`: every byte; `none`. Zeroed memory is no exception.
   An object that a realloc makes larger has been filled, or it would not need to be: where its truth is not recorded,
   `recorded` and `lines` first write a byte of each OS page that they have not yet written, so that realloc copies
   memory and not the kernel's one zero page. docs/measurements/replay.md has what the policies do to
   the figures. Safe anywhere; faults
   if the allocator gave memory that can't be written. */
#pragma once

#include "replay/state/result.h"

#include <stddef.h>
#include <string.h>

/* TOUCH_WHOLE_BYTES: docs/measurements/fidelity-causes.md has what it buys. */
enum { TOUCH_STEP_BYTES = 4096, TOUCH_LINE_BYTES = 64, TOUCH_BOUND_BYTES = 256, TOUCH_WHOLE_BYTES = 64 << 10 };

/* Of `lines` and `recorded`; set before the first op. */
extern uint64_t touch_bound_bytes;

static inline void touch_steps(volatile uint8_t *object, uint64_t from, uint64_t to) {
  for (uint64_t at = from; at < to; at += TOUCH_STEP_BYTES)
    object[at] = 1;
}

/* offset where an object has more bytes than that, else 0. Arithmetic: of a comparison gcc 12 makes a branch. */
static inline uint64_t offset_within(uint64_t offset, uint64_t bytes) {
  return (uint64_t)((int64_t)(offset - bytes) >> 63) & offset;
}

/* The usual bound without a branch on the size, which no predictor learns: a store beyond the end goes to the start. */
static inline __attribute__((always_inline)) void touch_lines(volatile uint8_t *object, uint64_t bytes) {
  if (__builtin_expect(touch_bound_bytes == TOUCH_BOUND_BYTES, 1)) {
    object[0] = 1;
    object[offset_within(64, bytes)] = 1;
    object[offset_within(128, bytes)] = 1;
    object[offset_within(192, bytes)] = 1;
    return;
  }
  for (uint64_t at = 0; at < bytes && at < touch_bound_bytes; at += TOUCH_LINE_BYTES)
    object[at] = 1;
}

/* A byte of each OS page of an object of at least a byte: its last may lie in one that no step meets. */
static inline void touch_whole(volatile uint8_t *object, uint64_t bytes) {
  if (bytes > TOUCH_STEP_BYTES)
    touch_steps(object, 0, bytes);
  object[bytes - 1] = 1;
}

/* Before a realloc of an object of old_bytes to new_bytes. touched: as below. */
static inline void touch_before_realloc(enum touch_policy policy, void *object, uint64_t old_bytes, uint64_t new_bytes,
                                        uint64_t touched) {
  if ((policy == TOUCH_RECORDED || policy == TOUCH_LINES) && touched == 0 && new_bytes > old_bytes)
    touch_steps((volatile uint8_t *)object, TOUCH_STEP_BYTES, old_bytes);
}

/* touch_object, of any policy, size and truth. */
void touch_unusual(enum touch_policy policy, uint8_t *memory, uint64_t old_bytes, uint64_t bytes, uint64_t touched);

/* object holds bytes requested bytes, of which the first old_bytes were in use before (0: a new object). touched: OS
   pages that the program touched, plus 1; 0: not known. What most objects are is compiled into the caller. */
static inline __attribute__((always_inline)) void touch_object(enum touch_policy policy, void *object,
                                                               uint64_t old_bytes, uint64_t bytes, uint64_t touched) {
  if (policy == TOUCH_NONE)
    return;
  uint8_t *memory = object;
  if (policy == TOUCH_RECORDED && touched == 0 && old_bytes == 0 && bytes - 1 < TOUCH_STEP_BYTES) {
    touch_lines(memory, bytes);
    *(volatile uint8_t *)(memory + bytes - 1) = 1;
  } else {
    touch_unusual(policy, memory, old_bytes, bytes, touched);
  }
}

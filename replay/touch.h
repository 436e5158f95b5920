/* Writes to objects as a program would, so that their memory becomes resident.

   Job: decide which bytes of a new object, or of the grown part of a reallocated one, are written. Always outside timed
   calls. Policies: `recorded`: as many OS pages from the start as the program was seen to have touched, where the
   workload says, else as `first`; `first`: the first byte; `pages`: a byte of each OS page; `all`: every byte; `none`.
   Zeroed memory is no exception. Safe anywhere; faults if the allocator gave memory that can't be written. */
#ifndef REPLAY_TOUCH_H
#define REPLAY_TOUCH_H

#include "replay/result.h"

#include <stddef.h>
#include <string.h>

enum { TOUCH_STEP_BYTES = 4096 };

static inline void touch_steps(volatile uint8_t *object, uint64_t from, uint64_t to) {
  for (uint64_t at = from; at < to; at += TOUCH_STEP_BYTES)
    object[at] = 1;
}

/* object holds bytes requested bytes, of which the first old_bytes were in use before (0: a new object). touched: OS
   pages that the program touched, plus 1; 0: not known. */
static inline void touch_object(enum touch_policy policy, void *object, uint64_t old_bytes, uint64_t bytes,
                                uint64_t touched) {
  uint8_t *memory = object;
  if (policy == TOUCH_RECORDED && __builtin_expect(touched != 0, 0)) {
    uint64_t steps = touched - 1, all = bytes / TOUCH_STEP_BYTES + (bytes % TOUCH_STEP_BYTES != 0);
    touch_steps(memory, 0, steps < all ? steps * TOUCH_STEP_BYTES : bytes);
    return;
  }
  if (policy == TOUCH_NONE || old_bytes >= bytes)
    return;
  if (policy == TOUCH_PAGES)
    touch_steps(memory, old_bytes, bytes);
  else if (policy == TOUCH_ALL)
    memset(memory + old_bytes, 1, bytes - old_bytes);
  else
    *(volatile uint8_t *)(memory + old_bytes) = 1;
}

#endif

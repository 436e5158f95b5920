/* SPDX-License-Identifier: MIT */
#include "replay/calls/touch.h"

uint64_t touch_bound_bytes = TOUCH_BOUND_BYTES;

void touch_unusual(enum touch_policy policy, uint8_t *memory, uint64_t old_bytes, uint64_t bytes, uint64_t touched) {
  if (policy == TOUCH_RECORDED && touched != 0) {
    uint64_t steps = touched - 1, all = bytes / TOUCH_STEP_BYTES + (bytes % TOUCH_STEP_BYTES != 0);
    if (steps < all)
      touch_steps(memory, 0, steps * TOUCH_STEP_BYTES);
    else if (bytes > 0)
      touch_whole(memory, bytes);
    return;
  }
  if (policy == TOUCH_NONE || old_bytes >= bytes)
    return;
  if (policy == TOUCH_PAGES)
    touch_steps(memory, old_bytes, bytes);
  else if (policy == TOUCH_ALL)
    memset(memory + old_bytes, 1, bytes - old_bytes);
  else if (policy == TOUCH_FIRST)
    *(volatile uint8_t *)(memory + old_bytes) = 1;
  else
    touch_lines(memory + old_bytes, bytes - old_bytes);
  if (policy == TOUCH_RECORDED)
    touch_whole(memory + old_bytes,
                bytes - old_bytes < TOUCH_WHOLE_BYTES ? bytes - old_bytes : (uint64_t)TOUCH_WHOLE_BYTES);
}

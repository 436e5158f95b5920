/* SPDX-License-Identifier: MIT */
#include "replay/calls/touch.h"

struct touching touching;

void touch_setup(enum touch_policy policy, uint64_t bound_bytes) {
  touching = (struct touching){policy, policy == TOUCH_RECORDED && bound_bytes == TOUCH_BOUND_BYTES, bound_bytes};
}

static void touch_lines(volatile uint8_t *object, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes && at < touching.bound_bytes; at += TOUCH_LINE_BYTES)
    object[at] = 1;
}

void touch_unusual(uint8_t *memory, uint64_t old_bytes, uint64_t bytes, uint64_t touched) {
  enum touch_policy policy = touching.policy;
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

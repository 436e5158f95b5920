/* SPDX-License-Identifier: MIT */
#include "replay/calls/touch.h"

#include "core/base/touched.h"
#include "core/workload/workload.h"

struct touching touching;

void touch_setup(enum touch_policy policy, uint64_t bound_bytes) {
  touching = (struct touching){policy, policy == TOUCH_RECORDED && bound_bytes == TOUCH_BOUND_BYTES, bound_bytes};
}

static void touch_lines(volatile uint8_t *object, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes && at < touching.bound_bytes; at += TOUCH_LINE_BYTES)
    object[at] = 1;
}

/* Touches OS pages of the object's named parts, each about the same number, evenly. */
static void touch_parts(volatile uint8_t *object, uint64_t bytes, struct touched touched) {
  unsigned shift = touched_part_shift(bytes);
  uint64_t left = touched.os_pages, parts = (uint64_t)__builtin_popcount(touched.parts);
  for (uint32_t map = touched.parts; map && parts > 0; map &= map - 1, parts--) {
    uint64_t from = (uint64_t)__builtin_ctz(map) << shift;
    if (from >= bytes)
      return;
    uint64_t part = bytes - from < 1ull << shift ? bytes - from : 1ull << shift;
    uint64_t room = (part + TOUCH_STEP_BYTES - 1) / TOUCH_STEP_BYTES, pages = (left + parts - 1) / parts;
    pages = pages < room ? pages : room;
    for (uint64_t i = 0; i < pages; i++)
      object[from + i * room / pages * TOUCH_STEP_BYTES] = 1;
    left -= pages;
  }
}

void touch_unusual(uint8_t *memory, uint64_t old_bytes, uint64_t bytes, uint64_t touched) {
  enum touch_policy policy = touching.policy;
  if (policy == TOUCH_RECORDED && touched != 0) {
    uint64_t steps = touched_word_os_pages(touched) - 1ull,
             all = bytes / TOUCH_STEP_BYTES + (bytes % TOUCH_STEP_BYTES != 0);
    if (touched_word_parts(touched))
      touch_parts(memory, bytes, (struct touched){(uint32_t)steps, touched_word_parts(touched)});
    else if (steps < all)
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

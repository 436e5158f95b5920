/* SPDX-License-Identifier: MIT */
#include "replay/calls/touch.h"

#include "core/base/touched.h"
#include "core/workload/workload.h"

struct touching touching;

void touch_setup(enum touch_policy policy, uint64_t bound_bytes) {
  touching = (struct touching){policy, policy <= TOUCH_LEAST && bound_bytes == TOUCH_BOUND_BYTES, bound_bytes};
}

static void touch_lines(volatile uint8_t *object, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes && at < touching.bound_bytes; at += TOUCH_LINE_BYTES)
    object[at] = 1;
}

/* Touches OS pages of the object's named parts, each about the same number, from its start on; of parts of several huge
   pages, of each of these. So of a part no bigger than a huge page no more of these are touched than it needs, wherever
   the object begins. */
static void touch_parts(volatile uint8_t *object, uint64_t bytes, struct touched touched) {
  enum { HUGE_SHIFT = 21 };
  unsigned shift = touched_part_shift(bytes), step_shift = shift < HUGE_SHIFT ? shift : HUGE_SHIFT;
  uint64_t left = touched.os_pages, steps = 0, each = 1ull << step_shift;
  for (int count = 1; count >= 0; count--) {
    for (uint64_t from = 0; from < bytes; from += each) {
      if (!(touched.parts >> (from >> shift) & 1))
        continue;
      uint64_t end = bytes - from < each ? bytes : from + each, pages = count ? 0 : (left + steps - 1) / steps;
      end = end - from < pages * TOUCH_STEP_BYTES ? end : from + pages * TOUCH_STEP_BYTES;
      touch_steps(object, from, end);
      left -= (end - from + TOUCH_STEP_BYTES - 1) / TOUCH_STEP_BYTES;
      steps += count ? 1 : -1ull;
    }
  }
}

/* Touches so many OS pages of the object, evenly. */
static void touch_evenly(volatile uint8_t *object, uint64_t bytes, uint64_t os_pages) {
  uint64_t all = (bytes + TOUCH_STEP_BYTES - 1) / TOUCH_STEP_BYTES;
  for (uint64_t i = 0; i < os_pages && i < all; i++)
    object[(os_pages < all ? i * all / os_pages : i) * TOUCH_STEP_BYTES] = 1;
}

void touch_unusual(uint8_t *memory, uint64_t old_bytes, uint64_t bytes, uint64_t touched) {
  enum touch_policy policy = touching.policy;
  if (policy <= TOUCH_LEAST && touched != 0) {
    uint64_t steps = touched_word_os_pages(touched) - 1ull,
             all = bytes / TOUCH_STEP_BYTES + (bytes % TOUCH_STEP_BYTES != 0);
    if (policy == TOUCH_SPREAD && (touched & TOUCHED_ESTIMATED))
      touch_whole(memory, bytes);
    else if (touched_word_parts(touched))
      touch_parts(memory, bytes, (struct touched){(uint32_t)steps, touched_word_parts(touched)});
    else if (steps && steps < all && policy == TOUCH_SPREAD && bytes >= TOUCHED_PARTS_MIN_BYTES)
      touch_evenly(memory, bytes, steps);
    else if (steps < all)
      touch_steps(memory, 0, steps ? steps * TOUCH_STEP_BYTES : 1); /* none inside: the first is another's, too */
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
  if (policy == TOUCH_SPREAD && old_bytes == 0 && bytes >= TOUCHED_PARTS_MIN_BYTES)
    touch_evenly(memory, bytes, TOUCH_WHOLE_BYTES / TOUCH_STEP_BYTES + (bytes >> 21));
  else if (policy <= TOUCH_SPREAD ||
           (policy == TOUCH_LEAST && (bytes <= TOUCH_STEP_BYTES || bytes >= TOUCHED_MIN_BYTES)))
    touch_whole(memory + old_bytes,
                bytes - old_bytes < TOUCH_WHOLE_BYTES ? bytes - old_bytes : (uint64_t)TOUCH_WHOLE_BYTES);
}

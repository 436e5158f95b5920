/* SPDX-License-Identifier: MIT */
/* Writes to objects as a program would, so that their memory becomes resident.

   Job: decide which bytes of a new object, or of the grown part of a reallocated one, are written. Always outside timed
   calls. Policies: `recorded`: as many OS pages as the program touched, if the workload has this number, in the parts
   where it touched them, or from the start on where these are not named (the first byte if there are none, as an OS
   page that the object shares with others does not count alone); else like `lines`, and a byte of each OS page of the
   first TOUCH_WHOLE_BYTES, as programs fill what they request, except large buffers; `spread`: the same, but where the
   parts of a large object are not named, its touched OS pages are spread over it evenly, and where their number is
   estimated, all are touched; `least`: the same as
   `recorded`, but of an object of more than an OS page that is not large only what `lines` touches; `lines`: a byte in
   every 64 up to touch_bound_bytes (256 by default); `first`: the first byte; `pages`: a byte of each OS page; `all`:
   every byte; `none`. This applies to zeroed memory, too. An object that a realloc makes larger was filled, or it would
   not need to grow: if its touched OS pages are not recorded, `recorded` and `lines` first write a byte of each OS page
   that they have not yet written, so that realloc copies memory and not the kernel's one zero page. Safe anywhere;
   faults if the allocator returned memory that can't be written. */
#pragma once

#include "core/base/touched.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum touch_policy {
  TOUCH_RECORDED,
  TOUCH_SPREAD,
  TOUCH_LEAST,
  TOUCH_LINES,
  TOUCH_FIRST,
  TOUCH_PAGES,
  TOUCH_ALL,
  TOUCH_NONE,
  TOUCH_POLICIES
};

/* The benefit of TOUCH_WHOLE_BYTES: docs/measurements/fidelity-causes.md. */
enum { TOUCH_LINE_BYTES = 64, TOUCH_BOUND_BYTES = 256, TOUCH_WHOLE_BYTES = 64 << 10 };

/* What touch_setup was told. */
extern struct touching {
  enum touch_policy policy;
  bool usual; /* `recorded`, `spread` or `least`, up to TOUCH_BOUND_BYTES */
  uint64_t bound_bytes;
} touching;

/* Call before the first op. bound_bytes: for `lines` and `recorded`. */
void touch_setup(enum touch_policy policy, uint64_t bound_bytes);

static inline void touch_steps(volatile uint8_t *object, uint64_t from, uint64_t to) {
  for (uint64_t at = from; at < to; at += TOUCH_STEP_BYTES)
    object[at] = 1;
}

/* Returns offset if an object has more bytes than that, else 0. Arithmetic: gcc 12 makes a branch of a comparison. */
static inline uint64_t offset_within(uint64_t offset, uint64_t bytes) {
  return (uint64_t)((int64_t)(offset - bytes) >> 63) & offset;
}

/* Touches a byte of each OS page of an object of at least a byte; no step may meet the OS page of its last byte. */
static inline void touch_whole(volatile uint8_t *object, uint64_t bytes) {
  if (bytes > TOUCH_STEP_BYTES)
    touch_steps(object, 0, bytes);
  object[bytes - 1] = 1;
}

/* Call before a realloc of an object of old_bytes to new_bytes. touched: as below. */
static inline void touch_before_realloc(void *object, uint64_t old_bytes, uint64_t new_bytes, uint64_t touched) {
  if (touching.policy <= TOUCH_LINES && touched == 0 && new_bytes > old_bytes)
    touch_steps((volatile uint8_t *)object, TOUCH_STEP_BYTES, old_bytes);
}

/* touch_object, for any policy, size and `touched`. */
void touch_unusual(uint8_t *memory, uint64_t old_bytes, uint64_t bytes, uint64_t touched);

/* Touches an object of `bytes` requested bytes, of which the first old_bytes were in use before (0: a new object).
   touched: what the program touched, a payload of TOUCHED words; 0: not known. The case of most objects is inlined,
   without a branch on the size, which is unpredictable: a store beyond the end goes to the start. */
static inline __attribute__((always_inline)) void touch_object(void *object, uint64_t old_bytes, uint64_t bytes,
                                                               uint64_t touched) {
  if (touching.policy == TOUCH_NONE)
    return;
  volatile uint8_t *memory = object;
  if (__builtin_expect(touching.usual && touched == 0 && old_bytes == 0 && bytes - 1 < TOUCH_STEP_BYTES, 1)) {
    memory[0] = 1;
    memory[offset_within(64, bytes)] = 1;
    memory[offset_within(128, bytes)] = 1;
    memory[offset_within(192, bytes)] = 1;
    memory[bytes - 1] = 1;
  } else {
    touch_unusual(object, old_bytes, bytes, touched);
  }
}

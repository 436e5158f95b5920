/* SPDX-License-Identifier: MIT */
/* Live bytes and objects during a pass over a history, and their peaks in its witness. Code that hands on ops keeps one
   (history.c, convert/whatif/rewriter.c). Invariant: os_page_bytes is a power of two. */
#pragma once

#include "core/workload/witness.h"

/* The totals that a history's consumer sees at each op: the state before the op. */
struct history_state {
  uint64_t live_bytes, live_objects;
};

struct live_totals {
  struct history_state state;
  uint64_t os_page_bytes;
  uint64_t live_os_page_bytes; /* objects of an OS page or more rounded up; separate from the state, as code that
                                  reads neighbours as one vector waits for earlier stores to reach the cache */
  struct witness *witness;     /* its ops field counts the ops handed on */
};

static inline uint64_t live_rounded(const struct live_totals *live, uint64_t size_bytes) {
  uint64_t os_page = live->os_page_bytes;
  return size_bytes < os_page ? size_bytes : (size_bytes + os_page - 1) & ~(os_page - 1);
}

static inline void live_subtract(struct live_totals *live, uint64_t size_bytes) {
  live->state.live_bytes -= size_bytes;
  live->live_os_page_bytes -= live_rounded(live, size_bytes);
}

/* Call it after the op has been handed on: the peak is after the op whose position is ops - 1. */
static inline void live_add(struct live_totals *live, uint64_t size_bytes) {
  struct witness *witness = live->witness;
  live->state.live_bytes += size_bytes;
  live->live_os_page_bytes += live_rounded(live, size_bytes);
  if (live->state.live_bytes > witness->peak_live_bytes) {
    witness->peak_live_bytes = live->state.live_bytes;
    witness->peak_position = witness->ops - 1;
  }
  if (live->live_os_page_bytes > witness->peak_live_os_page_bytes)
    witness->peak_live_os_page_bytes = live->live_os_page_bytes;
}

/* One more object lives; its bytes are added by live_add. */
static inline void live_begin_object(struct live_totals *live) {
  if (++live->state.live_objects > live->witness->peak_live_objects)
    live->witness->peak_live_objects = live->state.live_objects;
}

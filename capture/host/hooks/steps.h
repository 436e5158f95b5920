/* SPDX-License-Identifier: MIT */
/* A recorded call's two steps, before and after the real call, for all hooks: what an entry point knows becomes an
   event, with its optional columns, the touched OS pages of large objects, and what an operator holds back. A hook
   comes here in its uncommon cases only.

   Contract of step_*: step->in is of a hook that began (producer_enter_slow, producer_begin), and has a producer, which
   may be held; a hook releases or begins before the real call, and acquires or ends after it. Keep errno.
   Async-signal-safe. */
#pragma once

#include "capture/host/hooks/hook_call.h"

/* A call in progress. */
struct step {
  struct producer_entry in;
  uint8_t call; /* of calls.def */
  struct hook_sizes sizes;
  uint64_t began;           /* step_time before the real call */
  size_t (*usable)(void *); /* the usable bytes of an acquired object; NULL: not known */
};

/* A resize between its two steps. */
struct resize {
  const void *object; /* the old one; NULL: there is none */
  bool begun;
  uint64_t large_bytes; /* of the old object, 0: it is not large */
};

/* The optional columns (latency, usable size, stacks) are recorded by these functions only. Where one is wanted,
   PRODUCER_SLOW replaces PRODUCER_IDLE, so that no hook is in its common case, and recordings without columns pay
   nothing for them. */

/* The time before the real call; 0: its latency is not wanted. */
static inline uint64_t step_time(struct producer_entry in) {
  return in.was == PRODUCER_SLOW && (host_state.flags & ATTACH_LATENCY) ? os_stamp() : 0;
}

/* After the real call that acquires. result NULL: it failed. Leaves the call. */
void step_acquired(const struct step *step, void *result);

/* Before the real call of a release or touch. calling: the producer's state during it. */
void step_releasing(const struct step *step, enum producer_state calling, const void *object);

/* After the real call of a release or touch. Leaves the call. */
void step_released(const struct step *step, const void *object);

/* Records how much of a large object is resident that is live at the end. */
void step_live(struct producer_entry in, const void *object, uint64_t bytes);

/* Before and after the real call of a resize; the second leaves the call. */
struct resize step_resizing(const struct step *step, const void *object);
void step_resized(const struct step *step, struct resize resize, void *result);

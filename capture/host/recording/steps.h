/* SPDX-License-Identifier: MIT */
/* The steps of a recorded call, for hooks that are not generated in hooks.c: of functions whose parameters are known
   only when the program runs (linked.c).

   Contract of all: `in` is what producer_enter or producer_enter_slow gave, and has a producer; a hook releases or
   begins before the real call, and acquires or ends after it. Keep errno. Async-signal-safe. */
#ifndef CAPTURE_HOST_RECORDING_STEPS_H
#define CAPTURE_HOST_RECORDING_STEPS_H

#include "capture/host/recording/producer.h"

/* What was asked for, as calls.def has it: size, and element count or alignment; 0 where the call has none. */
struct hook_sizes {
  uint64_t size, param;
};

/* A call on its way. usable_bytes: of the object, where the recording has that; 0: not known. */
struct step {
  struct producer_entry in;
  uint8_t call; /* of calls.def */
  struct hook_sizes sizes;
  uint64_t began; /* step_time before the real call */
  uint64_t usable_bytes;
};

/* A resize between its two steps. */
struct resize {
  const void *object; /* the old one; NULL: there is none */
  bool begun;
  uint64_t large_bytes; /* of the old object, 0: it is not large */
};

/* The time before the real call; 0: its latency is not wanted. */
uint64_t step_time(struct producer_entry in);

/* Is the usable size wanted of what is acquired? */
bool step_wants_usable(struct producer_entry in);

/* After the real call that acquires. result NULL: it failed. Leaves the call. */
void step_acquired(const struct step *step, const void *result);

/* Before the real call of a release or touch. calling: the producer's state during it. */
void step_releasing(const struct step *step, enum producer_state calling, const void *object);

/* After it. Leaves the call. */
void step_released(const struct step *step, const void *object);

/* Before and after the real call of a resize; the second leaves the call. */
struct resize step_resizing(const struct step *step, const void *object);
void step_resized(const struct step *step, struct resize resize, const void *result);

/* Calls an operator new. Where it throws, the failed call is recorded as the exception passes. */
typedef void *step_function(uintptr_t, uintptr_t, uintptr_t, uintptr_t);
void *step_call_throwing(const struct step *step, step_function *real, const uintptr_t parameters[4]);

#endif

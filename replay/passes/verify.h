/* SPDX-License-Identifier: MIT */
/* The verify pass: does the allocator keep the rules of malloc? Each op is checked instead of measured.

   Job: fill every byte of every object with the object's own pattern, and fail, naming the op, as soon as
     - an object is handed out that overlaps a live object (claims.h),
     - an object is not aligned as requested (calls without an alignment: to 16 bytes; requests below 16 bytes: to the
       greatest power of two that fits in them, as C allows; size classes of 8 bytes are common),
     - malloc_usable_size returns less than was requested,
     - calloc's memory is not zero, or realloc lost contents,
     - a byte of a live object changed: checked before each call that is passed the object, and at the end.
   Not its job: time, memory, leaks. Invariants: an object's pattern depends on its slot and on the op that made it, so
   that neighbours and predecessors have different patterns; up to FILLED_BYTES every byte is filled, of larger objects
   the first and the last FILLED_BYTES / 2 (verified_partly counts them). Works under any order: an object is checked by
   the thread that is about to pass it, and no other thread touches it meanwhile. */
#pragma once

#include "replay/calls/call.h"
#include "replay/engine/state.h"

enum { FILLED_BYTES = 64 << 20 };

/* Call before the first op. Returns 0, or -1 with errno set. */
int verify_setup(void);

/* Makes the call of op on object, checking before and after. Ends the process if a rule is broken. */
void verify_op(struct replay_thread *self, struct object *object, struct call_plan plan, const struct op *op);

/* Call when all threads have ended: checks the objects that are still live. */
void verify_end(void);

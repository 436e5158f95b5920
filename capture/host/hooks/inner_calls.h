/* SPDX-License-Identifier: MIT */
/* Which calls made inside an operator are parts of it, where the caller's address does not show it: an operator may
   take and return its memory through any helper, and a new-handler of the program may call anything.

   Job: the events of what is acquired inside an operator new are held back until it ends. The one that holds its result
   has served the operator, and is dropped; the others are recorded, before the operator's own. Inside an operator
   delete, a release of its object, or of the block in which an operator new has placed it, is a part of it. Not its
   job: calls by code that is known to be the operator's (producer.c).

   Invariants: events are held in calls inside an operator only, and up to its end; meanwhile the producer's limit is
   NULL between steps, so that each step takes the slow forms; beyond INNER_HELD_MOST, the oldest is recorded.
   Preconditions: in.producer is the calling thread's, whose hook has begun. Keep errno. Async-signal-safe. */
#pragma once

#include "capture/host/hooks/hook_call.h"

/* After a real call that acquired `address` in an operator new. True: the event is held. False: it is to be recorded.
 */
bool inner_hold(struct producer_entry in, struct hook_call call, const void *address,
                const struct record_columns *columns);

/* After a real call that acquires; result NULL: it failed. Records what is held, but what an operator new was served
   with; in another call, the others are held further. */
void inner_settle(struct producer_entry in, uint8_t op, const void *result);

/* Before a release, a resize or a touch. True: it is a part of the operator in which the thread is, and is not to be
   recorded. False: what is held of the object has been recorded. */
bool inner_is_part(struct producer_entry in, uint8_t op, const void *object);

/* Before the release of an object by an operator delete. */
static inline void inner_deletes(struct producer_entry in, const void *object) {
  in.producer->deleting[in.was == PRODUCER_DELETE] = object;
}

/* After a release inside an operator delete. */
static inline void inner_deleted(struct producer_entry in, const void *object) {
  if (object == in.producer->deleting[1])
    in.producer->deleting[1] = NULL;
}

/* SPDX-License-Identifier: MIT */
/* The sharing pass: which cache lines hold live objects of several threads under this allocator
   (core/sharing/line_sharing.h).

   Job: report each acquire and release to the line counter, in the order in which they happen. Not its job: counting.
   Invariants: any order of replay; where threads run side by side, an object is removed before its memory can be handed
   out again, and added after it was handed out, so no line is counted as shared that was not. The default is the
   recorded order: the layout depends on which thread requests what, and in which order. Each workload thread is a real
   thread, so caches and arenas of threads act as in the program, and the figures are the same in each run. Owners are
   the workload's threads. */
#pragma once

#include "replay/calls/call.h"
#include "replay/engine/state.h"

/* Call before the first op. Returns 0, or -1 with errno set. */
int sharing_setup(struct replay_result *result);

/* Call these around the call of op. object: its slot's, as it is then. End the process if there is no memory. */
void sharing_before_call(const struct replay_thread *self, struct call_plan plan, const struct op *op,
                         const struct object *object);
void sharing_after_call(const struct replay_thread *self, struct call_plan plan, const struct op *op,
                        const struct object *object);

/* Call when all threads have ended. */
void sharing_end(void);

/* SPDX-License-Identifier: MIT */
/* The replay loop: a thread's words, one after the other. The heart of the engine.

   Job: decode words, keep the objects, make the calls. Not its job: how a call is made (call.h), order (order.h),
   threads (threads.h), sampling (memory.h). Invariants: one loop in the source, compiled to one machine loop per pass
   and order by constant arguments; each word is checked against the tables' bounds before use; in the bare pass with
   the null allocator an op costs a few ns (make bench). */
#pragma once

#include "replay/engine/state.h"

/* Replays the stream of self, which its worker has opened, to its END. */
typedef void loop_body(struct replay_thread *self);

/* Returns the loop. turns: one thread at a time, as turns.h grants them. */
loop_body *loop_for(enum replay_pass pass, bool turns);

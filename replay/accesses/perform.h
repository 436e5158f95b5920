/* SPDX-License-Identifier: MIT */
/* The accesses pass, in the engine: before each op it performs the accesses that the program made since the previous
   op, at the addresses that this allocator returned.

   Job: perform the accesses at little other cost. Not its job: the stream (prepared.h), measuring (each
   thread's CPU time, as in the bare pass), subtracting. How they are performed (enum access_mode):
   - independent: the processor may begin an access before the previous ones have completed, as far as it has room. A
     program waits more than that.
   - dependent: each address is computed from what the previous access read. A program waits less than that.
   - own share: the same machine code as independent, and each access goes to one line. With the null allocator, what
     remains is the engine's own cost.
   Invariants: the order is the recorded one; an access never leaves its object: one outside of the requested bytes goes
   to the nearest of them, and is counted. An access to an object without bytes (refused, or of 0 bytes) is not
   performed, and is counted as lost. No malloc. Only the thread that has the turn may call these functions. */
#pragma once

#include "replay/state/engine_state.h"

/* Call before the first op, when engine.objects exists. Fails the engine's run where the stream can't be read. */
void perform_begin(const struct replay_setup *setup);

/* Call before each op. worker: the calling thread's; the time of preparing is charged to it. */
void perform_before_op(struct worker *worker);

/* Call after each op: its object, if it has one, is in that slot now. */
void perform_after_op(uint32_t slot);

/* Call after the last op, when all threads have ended: performs the accesses that the program made after it. Fills in
   the result's counts, and adds to its cpu_ns. */
void perform_end(struct replay_result *result);

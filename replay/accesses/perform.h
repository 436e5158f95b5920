/* SPDX-License-Identifier: MIT */
/* The accesses pass, in the engine: before each op it performs what the program accessed since the op before, at the
   addresses that this allocator gives.

   Job: perform the accesses, and nothing else that costs much. Not its job: the stream (prepared.h), measuring (each
   thread's CPU time, as in the bare pass), subtracting. How they are performed (enum access_mode):
   - independent: the processor may begin an access before the one before has come back, as many as it has room for. A
     program waits more than that.
   - dependent: the address of each is computed from what the one before read. A program waits less than that.
   - own share: the same machine code as independent, and each access goes to one line. With the null allocator what
     remains is the engine's own.
   Invariants: the order is the recorded one; an access never leaves its object: one outside of what was requested goes
   to the nearest byte of it, and is counted. An access to an object that has no byte (refused, or of 0 bytes) is not
   performed, and counted as lost. No malloc. One at a time: whoever has the turn. */
#pragma once

#include "replay/state/engine_state.h"

/* Before the first op; engine.objects is there. Fails the engine's run where the stream can't be read. */
void perform_begin(const struct replay_setup *setup);

/* An op comes. worker: of the calling thread, to which the time of preparing is charged. */
void perform_before_op(struct worker *worker);

/* The op was made: its object, if it has one, is in that slot now. */
void perform_after_op(uint32_t slot);

/* After the last op, when all threads have ended: what the program accessed then. Fills in the result's counts, and
   adds to its cpu_ns. */
void perform_end(struct replay_result *result);

/* SPDX-License-Identifier: MIT */
/* The instructions pass, in the engine: it runs under Valgrind, which counts the instructions of each call exactly and
   repeatably, by our tool (observe/valgrind).

   Job: make each kind of call from a separate function, so that the figures can be attributed by caller. Not its job:
   starting the engine under Valgrind and reading what it counted (replay/passes/instruction_counter.h); subtracting
   anything: a call's cost is what is executed below its call instruction, which is the allocator's code only. Threads
   take turns under Valgrind, so spinning and waiting differ from a normal run. */
#pragma once

#include "replay/calls/call.h"
#include "replay/engine/state.h"

/* Makes the call of op, and counts it under its kind. Returns the object, or NULL. */
void *instructions_call(struct worker *worker, uint8_t entry, const struct op *op);

/* Reports the callers to our tool, if the engine runs under it. Before the first call. */
void instructions_begin(void);

/* Reports to the tool that main begins. */
void instructions_loaded(void);

/* Reports to the tool that the allocator's start-up is over. Call before the first op, while no thread runs ops. */
void instructions_started(void);

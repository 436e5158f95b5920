/* SPDX-License-Identifier: MIT */
/* The instructions pass, in the engine: it runs under Valgrind, which counts the instructions of each call exactly and
   repeatably: under our tool (observe/valgrind) where that is there, under callgrind otherwise.

   Job: make each kind of call from a function of its own, so that the figures can be attributed by caller. Not its job:
   starting the engine under Valgrind and reading what it counted (replay/parent/instruction_counter.h); subtracting
   anything: what a call costs is what is executed below its call instruction, the allocator's alone. Threads take turns
   under Valgrind, so spinning and waiting are not what they are in life. */
#pragma once

#include "replay/state/call.h"
#include "replay/state/engine_state.h"

/* Makes the call of op, and counts it for its kind. Returns the object, NULL if there is none. */
void *instructions_call(struct worker *worker, uint8_t entry, const struct op *op);

/* Reports the callers to our tool, if the engine runs under it. Before the first call. */
void instructions_begin(void);

/* Reports to the tool that main begins. */
void instructions_loaded(void);

/* Reports to the tool that the allocator's start-up is over. Right before the first op, while no thread runs ops. */
void instructions_started(void);

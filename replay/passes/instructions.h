/* The instructions pass, for machines without a PMU: the engine runs under callgrind, which counts the instructions of
   each call exactly and repeatably, some 50 times slower than life.

   Job: make each kind of call from a function of its own, so that callgrind's figures can be attributed by caller.
   Not its job: starting the engine under callgrind and reading what it wrote (replay/driver/callgrind.h), subtracting
   anything: what a call costs is what is executed below its call instruction, the allocator's alone. Threads take turns
   under callgrind, so spinning and waiting are not what they are in life. */
#ifndef REPLAY_PASSES_INSTRUCTIONS_H
#define REPLAY_PASSES_INSTRUCTIONS_H

#include "replay/state/call.h"
#include "replay/state/engine_state.h"

/* Makes the call of op, and counts it for its kind. Returns the object, NULL if there is none. */
void *instructions_call(struct worker *worker, uint8_t entry, const struct op *op);

#endif

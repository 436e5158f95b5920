/* The instructions pass, for machines without a PMU: the engine runs under callgrind, which counts the instructions of
   each call exactly and repeatably, some 50 times slower than life.

   Job of the first half, in the engine: make each kind of call from a function of its own, so that callgrind's figures
   can be told apart by caller. Of the second, in the parent: how to start the engine under callgrind, and what it
   wrote. Not its job: subtracting anything: what a call costs is what is executed below its call instruction, the
   allocator's alone. Threads take turns under callgrind, so spinning and waiting are not what they are in life. */
#ifndef REPLAY_PASSES_INSTRUCTIONS_H
#define REPLAY_PASSES_INSTRUCTIONS_H

#include "replay/engine/engine.h"
#include "replay/state/call.h"

/* Makes the call of op, and counts it for its kind. Returns the object, NULL if there is none. */
void *instructions_call(struct worker *worker, uint8_t entry, const struct op *op);

/* Where callgrind writes, and whom to start. */
struct callgrind {
  char directory[64]; /* temporary; empty: not made */
  char output[96], log[96];
  char engine[4096]; /* path of this program */
};

/* Makes a temporary directory. Returns 0, or -1 with error filled in. callgrind_finish in either case. */
int callgrind_begin(struct callgrind *callgrind, struct trace_error *error);

/* In the child: becomes `ENGINE ARGUMENT` under callgrind. Returns only if there is no valgrind. */
void callgrind_exec(const struct callgrind *callgrind, const char *argument);

/* Reads callgrind's output: instructions of each kind of call. Returns 0, or -1 with error filled in. */
int callgrind_read(const struct callgrind *callgrind, uint64_t instructions[CALL_LIMIT], struct trace_error *error);

/* Removes what it made. */
void callgrind_finish(struct callgrind *callgrind);

#endif

/* The engine under callgrind, for the instructions pass: the parent's half (replay/passes/instructions.h is the
   engine's).

   Job: start the engine under callgrind, read the instructions of each kind of call from its output. Not its job:
   counting calls (the engine does). Invariants: writes to one temporary directory, which callgrind_finish removes. */
#ifndef REPLAY_DRIVER_CALLGRIND_H
#define REPLAY_DRIVER_CALLGRIND_H

#include "core/base/error.h"
#include "core/trace/event.h"

/* Where callgrind writes, and which program it runs. */
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

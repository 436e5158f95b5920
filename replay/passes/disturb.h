/* SPDX-License-Identifier: MIT */
/* What a program does between two calls of the allocator, for its caches: other lines take the places of the
   allocator's.

   Job: read so many cache lines of a private buffer before a timed call, outside the timed window. Not its job: how
   many (an option; docs/measurements/replay.md has its effect). Invariants: the buffer is the thread's own, shared
   memory, so that it is no memory of the allocator's, and larger than the second-level cache; it is read line after
   line, round and round. */
#pragma once

#include <stdint.h>

enum { DISTURB_BYTES = 8 << 20, DISTURB_LINE_BYTES = 64 };

/* Before each timed call; 0: none. Set before the first thread. */
extern uint64_t disturb_lines;

/* Reads disturb_lines lines. Does nothing where there is no memory for the buffer. */
void disturb(void);

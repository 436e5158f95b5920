/* SPDX-License-Identifier: MIT */
/* What a program does to its caches between two calls of the allocator: other lines displace the allocator's.

   Job: read disturb_lines cache lines of a private buffer before a timed call, outside the timed window. Not its job:
   how many (an option; docs/measurements/replay.md has its effect). Invariants: each thread has its own buffer, in
   shared memory, so that it does not count as the allocator's, and larger than the second-level cache; the buffer is
   read cyclically, line after line. */
#pragma once

#include <stdint.h>

enum { DISTURB_BYTES = 8 << 20, DISTURB_LINE_BYTES = 64 };

/* Cache lines read before each timed call; 0: none. Set before the first thread. */
extern uint64_t disturb_lines;

/* Reads disturb_lines lines. Does nothing if there is no memory for the buffer. */
void disturb(void);

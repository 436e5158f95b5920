/* SPDX-License-Identifier: MIT */
/* The memory pass: how much memory the process has, at known places of the replay.

   Job: sample RssAnon and VmSize against progress, keep live bytes exactly, have the map of live bytes by address made.
   Not its job: system calls (syscalls.h), subtracting the baseline (report.c).
   Invariants: progress is the number of ops completed, which under the recorded order is the recorded position; samples
   lie at evenly spaced positions, and at each new maximum of live bytes that is 1 % above the last; one thread samples
   at a time, on the thread that did the op, with nothing but preallocated memory. Peaks between the samples are the
   parent's to find: RssAnon and VmSize only fall in a system call, and before each of these it looks (syscalls.h). How
   exact RssAnon is depends on the kernel: Linux 6.17 and later sum their per-processor counters for it; earlier ones
   may be off by up to 64 OS pages per thread or processor. */
#pragma once

#include "replay/state/engine_state.h"

/* Before the first op; any pass (the others only take start and end). Returns 0, or -1 with errno set. */
int memory_setup(struct replay_result *result, bool sampling);

/* RssAnon and VmSize now, in bytes. Returns 0, or -1: /proc can't be read. */
int memory_read(uint64_t *rss_anon_bytes, uint64_t *vm_size_bytes);

/* The row at position 0, and the last one. */
void memory_begin(void);
void memory_end(void);

/* After an op: live bytes changed by that much. Samples where one is due. */
void memory_after_op(struct worker *worker, int64_t live_change);

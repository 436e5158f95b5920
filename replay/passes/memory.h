/* SPDX-License-Identifier: MIT */
/* The memory pass: how much memory the process has, at known positions of the replay.

   Job: sample RssAnon and VmSize against progress, count live bytes exactly, trigger the map of live bytes by address.
   Not its job: system calls (syscalls.h), subtracting the baseline (report.c).
   Invariants: progress is the number of ops completed, which under the recorded order is the recorded position; samples
   lie at evenly spaced positions, and at each new maximum of live bytes that is 1 % above the last; one thread samples
   at a time, the one that did the op, with preallocated memory only. Peaks between the samples are found by the parent:
   RssAnon and VmSize fall only in a system call, and it reads them before each of these (syscalls.h). How exact RssAnon
   is depends on the kernel: Linux 6.17 and later sum their per-processor counters for it; earlier ones
   may be off by up to 64 OS pages per thread or processor. */
#pragma once

#include "replay/engine/state.h"

/* Call before the first op, in any pass (other passes only sample start and end). Returns 0, or -1 with errno set. */
int memory_setup(struct replay_result *result, bool sampling);

/* Reads RssAnon and VmSize. Returns 0, or -1: /proc can't be read. */
int memory_read(uint64_t *rss_anon_bytes, uint64_t *vm_size_bytes);

/* Add the row at position 0, and the last one. */
void memory_begin(void);
void memory_end(void);

/* Call after an op; live_change: by how much live bytes changed. Samples if a sample is due. */
void memory_after_op(struct worker *worker, int64_t live_change);

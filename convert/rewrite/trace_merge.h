/* SPDX-License-Identifier: MIT */
/* Joins the traces of several processes into one, as if they had been threads of one process, so that their combined
   load on a machine's memory can be replayed.

   Traces that are files of one rotated recording (rotated_files.h) are one process: they have the same addresses and
   clock, and their threads continue. Merging only such files gives the trace that the recording would have been without
   rotation.

   Threads of the second trace follow those of the first, and so on. Addresses of process number i move up by i x 2^48,
   so that addresses of different processes never collide; a trace with addresses above 2^48 can't be merged. Stamps are
   put on the first trace's clock: unchanged where both recordings read the same cycle counter (the clock of day shows
   this), else by the clock of day at their origins. Samples are sums over all processes at that time. A child of fork
   that was recorded from its fork frees objects of its parent: the merged trace then lacks its start, as the child's
   does. Data accesses are left out. Memory is O(block + threads + samples of one trace). Not thread-safe. */
#pragma once

#include "convert/rewrite/copying/trace_out.h"

/* Returns 0, or -1 with error. */
int trace_merge(struct trace_reader *const *readers, uint32_t count, const char *path,
                const struct trace_options *options, struct error *error);

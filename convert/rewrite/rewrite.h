/* SPDX-License-Identifier: MIT */
/* What `convert` makes of traces besides copies. Not thread-safe. */
#pragma once

#include "convert/copy/trace_out.h"

/* Joins the traces of several processes into one, as if they had been threads of one process, so that their combined
   load on a machine's memory can be replayed.

   Traces that are files of one rotated recording are one process: they have the same addresses and
   clock, and their threads continue. Merging only such files gives the trace that the recording would have been without
   rotation.

   Threads of the second trace follow those of the first, and so on. Addresses of process number i move up by i x 2^48,
   so that addresses of different processes never collide; a trace with addresses above 2^48 can't be merged. Stamps are
   put on the first trace's clock: unchanged where both recordings read the same cycle counter (the clock of day shows
   this), else by the clock of day at their origins. Samples are sums over all processes at that time. A child of fork
   that was recorded from its fork frees objects of its parent: the merged trace then lacks its start, as the child's
   does. Data accesses are left out. Memory is O(block + threads + samples of one trace). */

/* Returns 0, or -1 with error. */
int trace_merge(struct trace_reader *const *readers, uint32_t count, const char *path,
                const struct trace_options *options, struct error *error);

/* Reduces a trace to what its replay needs: the calls with their sizes, counts and alignments, the object passed to
   each, the order, the OS pages touched, the memory samples against progress, and the data accesses.

   Addresses are replaced by addresses in a space where every thread's objects are consecutive and no address is used
   twice; stamps become the ordinals of runs of events of one thread; names, process ids, times, stacks, modules, marks
   and names of threads are left out. The history is put into its legal order: steps that `check` would repair are
   repaired, releases of objects never seen are left out, a free is inserted where one was not seen. So compile makes
   the same workload, word for word, from the new trace as from the old one, if that was legal
   (convert/test/test_tapes.py). Memory is that of history_run. */

int trace_anonymise(struct trace_reader *reader, const char *path, const struct trace_options *options,
                    struct error *error);

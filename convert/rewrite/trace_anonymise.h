/* SPDX-License-Identifier: MIT */
/* Reduces a trace to what its replay needs: the calls with their sizes, counts and alignments, the object passed to
   each, the order, the OS pages touched, the memory samples against progress, and the data accesses.

   Addresses are replaced by addresses in a space where every thread's objects are consecutive and no address is used
   twice; stamps become the ordinals of runs of events of one thread; names, process ids, times, stacks, modules, marks
   and names of threads are left out. The history is put into its legal order: steps that `check` would repair are
   repaired, releases of objects never seen are left out, a free is inserted where one was not seen. So compile makes
   the same workload, word for word, from the new trace as from the old one, if that was legal
   (convert/test/test_tapes.py). Memory is that of history_run. */
#pragma once

#include "convert/rewrite/copying/trace_out.h"

int trace_anonymise(struct trace_reader *reader, const char *path, const struct trace_options *options,
                    struct error *error);

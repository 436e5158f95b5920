/* SPDX-License-Identifier: MIT */
/* Makes of a trace what its replay needs and no more: the calls with their sizes, counts and alignments, which object
   each one is given, the order, the OS pages touched, the memory samples against progress, and the data accesses.

   Addresses become places in an address space where every thread's objects lie one behind the other and none is used
   twice; stamps become the ordinal of the run of events of one thread; names, process ids, times, stacks, modules,
   marks and names of threads are left out. The history is put into its legal order on the way: steps that `check` would
   repair are repaired, releases of objects never seen are left out, a free is put in where one was not seen. So the
   workload that compile makes of the new trace is word for word that of the old one, if that was legal
   (convert/test/test_tapes.py). Memory is that of history_run. */
#pragma once

#include "convert/rewrite/copying/trace_out.h"

int trace_anonymise(struct trace_reader *reader, const char *path, const struct trace_options *options,
                    struct error *error);

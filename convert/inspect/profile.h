/* The profile of a trace: what its program asks of an allocator. Request sizes, lifetimes, rates, who frees whose
   objects, growth by realloc, and which call stacks allocate what.

   Not its job: judging (analysis/), reading and ordering (convert/history/history.h). Invariants: one pass; memory is
   O(live objects + threads + stack nodes) and bounded tables; what a bounded table can't take is counted, not lost. */
#ifndef CONVERT_INSPECT_PROFILE_H
#define CONVERT_INSPECT_PROFILE_H

#include "convert/history/history.h"

#include <jansson.h>

enum {
  PROFILE_WINDOWS = 512, /* parts of the recorded progress that rates are given for */
  PROFILE_AGES = 64,     /* buckets of a lifetime, by powers of two */
  PROFILE_CHAINS = 64,   /* longest chain of reallocs that is told apart */
  PROFILE_PAIRS = 4096,  /* pairs of threads that are told apart */
  PROFILE_SITES = 1000,  /* stacks that are given, the first by each of bytes, objects, ages, and what is live at the
                            peak and the end */
};

/* A new JSON object (convert/README.md lists its keys), or NULL with error. Runs through the whole history. */
json_t *profile_of_trace(struct trace_reader *reader, const struct history_options *options, struct trace_error *error);

#endif

/* SPDX-License-Identifier: MIT */
/* What if: a trace's history as it would be if groups of its objects were treated differently (docs/use/BLAME.md, "What
   if"), handed on to the compiler as by history_run.

   Job: what happens to each op of a group's objects; counts. Invariants: the result is a legal history; the ops of
   objects of no group are all there, unchanged, in their order. Memory is O(live objects + threads), with `early`
   O(births of the group) too. Not thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "convert/whatif/groups.h"

#include <jansson.h>

/* Numbers of ops in the trace's history, rising. */
struct positions {
  const uint64_t *at;
  size_t count;
};

struct rewriting {
  struct trace_reader *reader;
  const struct history_options *options;
  struct groups groups;
  struct positions positions; /* to be translated to positions in the result */
  json_t *about;              /* filled in: WORKLOAD.md, `whatif` and `whatif_positions`; the caller drops it */
};

/* As history_run with the rewriting's reader and options. witness: the trace's, but ops, live objects and peaks are
   those of the result. Returns 0, or -1 with error, also if groups overlap, a group matches nothing, the trace lacks
   what a group needs, or a position is beyond the end. */
int rewriting_run(struct rewriting *rewriting, const struct history_consumer *consumer, struct witness *witness,
                  struct error *error);

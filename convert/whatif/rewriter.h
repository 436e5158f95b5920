/* SPDX-License-Identifier: MIT */
/* What if: a trace's history as it would have been had groups of its objects been treated otherwise (docs/use/BLAME.md,
   "What if"), handed on as history_run does to the consumer that compiles.

   Job: what happens to each op of a group's objects; counts. Not its job: the groups (members.h), words
   (convert/compile/compile.h). Invariants: what is handed on is a legal history; the ops of objects of no group are all
   there, unchanged, in their order. Memory is O(live objects + threads), with `early` O(births of the group) too. Not
   thread-safe. */
#pragma once

#include "convert/whatif/members.h"

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
  struct positions positions; /* of which is told where in what is handed on they are */
  json_t *about;              /* filled in: WORKLOAD.md, `whatif` and `whatif_positions`; the caller's to drop */
};

/* As history_run of the rewriting's reader and options. witness: the trace's, but ops, live objects and peaks are those
   of what is handed on. Returns 0, or -1 with error, also where groups overlap, one matches nothing, the trace lacks
   what one asks for, or a position is beyond the end. */
int rewriting_run(struct rewriting *rewriting, const struct history_consumer *consumer, struct witness *witness,
                  struct error *error);

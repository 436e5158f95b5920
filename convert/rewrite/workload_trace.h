/* SPDX-License-Identifier: MIT */
/* A trace of a workload's ops: of all, or of some of its objects, up to some place, on fewer threads. What `heaptape
   minimise` tries its candidates with, and what a distillate is made by.

   Objects are numbered from 0 in the order of their births in the total order; a call that is given NULL and acquires
   nothing counts as one, born and gone there. Invariants: the trace is a legal history, of which the compiler makes the
   workload again, if all of it is wanted; an object is there whole, with all that happens to it up to the end, or not
   at all. Addresses are made up. Memory is O(slots + threads). Not thread-safe. */
#pragma once

#include "core/workload/workload_read.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct workload_trace_wanted {
  const uint8_t *objects; /* by number: 0: is left out; NULL: all stay, or those that `wants` tells */
  uint64_t object_count;  /* of the array: must be that of the workload's objects */
  uint64_t end;           /* position of the first op that is left out with all after it */
  const uint32_t *joined; /* threads whose ops are made by thread 0 */
  size_t joined_count;
  /* Asked for each object in the order of their births; NULL: all stay. */
  bool (*wants)(void *context, uint64_t number);
  void *context;
  json_t *distilled; /* INFO's key of that name; NULL: none */
  /* The workload's data accesses (core/accesses/replay_file.h), of which the trace gets those before each op of which
     `plays` says so, but for those to objects that it does not have. NULL: none. */
  const char *accesses;
  bool (*plays)(void *context, uint64_t position);
};

struct workload_trace_counts {
  uint64_t objects, events; /* objects: of the workload up to the end; events: written */
};

/* The workload's ops must be legal (`check`); what is seen not to be is an error. Returns 0, or -1 with error; then
   what was written is incomplete. */
int workload_trace_write(const struct workload *workload, const struct workload_trace_wanted *wanted, const char *path,
                         struct workload_trace_counts *counts, struct error *error);

/* SPDX-License-Identifier: MIT */
/* The profile of a trace: the demands of its program on an allocator. Request sizes, lifetimes, rates, who frees whose
   objects, growth by realloc, and which call stacks allocate what.

   Invariants: one pass; memory is O(live objects + threads + stack nodes) and bounded tables; what does not fit into a
   bounded table is counted as left out. */
#pragma once

#include "convert/history/history.h"
#include "core/base/registry.h"
#include "core/trace/read/trace_read.h"

#include <jansson.h>

/* A new JSON object (keys: docs/formats/PROFILE_JSON.md), or NULL with error. Runs through the whole history. */
json_t *profile_of_trace(struct trace_reader *reader, const struct history_options *options, struct error *error);

/* What another file adds to the profile. */
struct profile_part {
  bool (*says)(const struct trace_summary *summary);                                /* anything of that trace? */
  void *(*begin)(const struct trace_summary *summary);                              /* the context; NULL: no memory */
  int (*op)(void *context, const struct history_op *op);                            /* returns 0, or -1: no memory */
  void (*move_begins)(void *context, const struct merge_step *step, uint32_t slot); /* as of history_consumer */
  void (*end)(void *context, json_t *profile); /* adds its keys, but not to NULL, after an error; frees the context */
};

#define REGISTER_PROFILE_PART(one) REGISTRY_ADD(profile_parts, profile_part, entry_##one, &one)
REGISTRY(profile_parts, profile_part);

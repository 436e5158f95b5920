/* SPDX-License-Identifier: MIT */
/* The profile of a trace: the demands of its program on an allocator. Request sizes, lifetimes, rates, who frees whose
   objects, growth by realloc, and which call stacks allocate what.

   Invariants: one pass; memory is O(live objects + threads + stack nodes) and bounded tables; what does not fit into a
   bounded table is counted as left out. */
#pragma once

#include "convert/history/history.h"
#include "core/trace/read/trace_read.h"

#include <jansson.h>

/* A new JSON object (keys: docs/formats/PROFILE_JSON.md), or NULL with error. Runs through the whole history. */
json_t *profile_of_trace(struct trace_reader *reader, const struct history_options *options, struct error *error);

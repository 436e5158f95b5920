/* SPDX-License-Identifier: MIT */
/* Copies a trace event by event into a new one with the same content, thread after thread: the same events, order,
   gaps, samples, annotations and data accesses, in blocks of another size or form.

   What a truncated trace lost stays lost; the copy is complete and INFO records the truncation (`truncated_source`).
   Memory is O(block + threads). Not thread-safe. */
#pragma once

#include "convert/rewrite/copying/trace_out.h"

/* Changes to a trace while it is copied, for convert/rewrite/trace_merge.h; all zeros: none. A thread that already has
   events in the new trace is continued there. */
struct trace_change {
  uint64_t (*stamp)(void *context, uint64_t stamp); /* NULL: unchanged */
  void *context;
  uint64_t address_offset; /* added to all addresses */
  uint64_t address_limit;  /* addresses of the source must be below it; 0: no limit */
  const uint32_t *threads; /* by the source's thread: its number for trace_out; NULL: unchanged */
};

/* Appends stacks, events, gaps, objects touched at the end, marks and names of the trace. Returns 0, or -1 with error,
   which is empty if the writer has the reason. */
int trace_copy_into(struct trace_out *out, struct trace_reader *reader, const struct trace_change *change,
                    struct error *error);

int trace_copy(struct trace_reader *reader, const char *path, const struct trace_options *options, struct error *error);

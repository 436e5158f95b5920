/* SPDX-License-Identifier: MIT */
/* Brings stacks, modules, marks and names of threads from one trace into another, for code that makes traces
   (convert/rewrite/copying/trace_out.h).

   Not its job: events. Memory is O(stack nodes + modules). Not thread-safe. */
#pragma once

#include "convert/rewrite/copying/trace_out.h"

/* The node of the new trace for each node of the old one. All zeros: no stacks. */
struct trace_stacks {
  uint32_t *nodes; /* by the old number */
  uint32_t count;
};

static inline uint32_t trace_stacks_node(const struct trace_stacks *stacks, uint32_t node) {
  return node < stacks->count ? stacks->nodes[node] : 0;
}
void trace_stacks_free(struct trace_stacks *stacks);

/* Writes the modules and the tree of stacks; call it before the events that name its nodes. address_offset is added to
   all addresses. Returns 0, or -1 with error (empty: the writer has the reason). */
int trace_copy_stacks(struct trace_stacks *stacks, struct trace_reader *reader, struct trace_out *out,
                      uint64_t address_offset, struct error *error);

/* Writes the names of those threads that the new trace has. threads: as in convert/rewrite/copying/trace_copy.h. */
int trace_copy_thread_names(struct trace_reader *reader, struct trace_out *out, const uint32_t *threads,
                            struct error *error);

/* SPDX-License-Identifier: MIT */
/* Brings the content of one trace into another (trace_out.h): stacks, modules, marks, names of threads, data accesses;
   or all of it.

   Memory is O(stack nodes + modules + threads + block). Not thread-safe. */
#pragma once

#include "convert/copy/trace_out.h"

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

/* Writes the names of those threads that the new trace has. threads: as in struct trace_change. */
int trace_copy_thread_names(struct trace_reader *reader, struct trace_out *out, const uint32_t *threads,
                            struct error *error);

/* Copies all accesses, if any, and their totals; call it after the events, since it names their threads. Memory is
   O(block). Returns 0, or -1 with error (empty: the writer has the reason). */
int trace_copy_accesses(struct trace_reader *reader, struct trace_out *out, struct error *error);

/* Copies their totals alone: the counts of the recording stay, even if some of its items are left out. */
void trace_copy_access_totals(const struct trace_reader *reader, struct trace_out *out);

/* Copies a trace event by event into a new one with the same content, thread after thread: the same events, order,
   gaps, samples, annotations and data accesses, in blocks of another size or form.

   What a truncated trace lost stays lost; the copy is complete and INFO records the truncation (`truncated_source`).
   Memory is O(block + threads). Not thread-safe. */

/* Changes to a trace while it is copied; all zeros: none. A thread that already has
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

/* Writes path: all of the trace, as a normal one or an archive. Returns 0, or -1 with error. */
int trace_copy(struct trace_reader *reader, const char *path, const struct trace_options *options, struct error *error);

/* A trace to be made of others. */
struct trace_job {
  struct trace_reader **readers;
  uint32_t count;
  const char *path;
  struct trace_options options;
};

/* Makes another trace than a copy, as an option asks that a feature adds to `convert`: the fields of the options that
   are added there (CLI_ADD) are a struct trace_rewriting *, NULL before the first. */
struct trace_rewriting {
  bool takes_several;           /* traces */
  const char *without_accesses; /* why data accesses are left out; NULL: they are not */
  int (*run)(const struct trace_rewriting *rewriting, const struct trace_job *job, struct error *error);
};

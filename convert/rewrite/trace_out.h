/* SPDX-License-Identifier: MIT */
/* A trace that convert makes from other traces: threads are renumbered as they appear, and stamps are inherited again
   where possible, so that a copy is no larger than its original.

   Events of a source thread must come in their order. Memory is that of the trace writer plus O(threads). Not
   thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "core/trace/read/trace_read.h"
#include "core/trace/write/trace_write.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct trace_out;

/* Options for every trace that is made. */
struct trace_options {
  bool archive;                          /* the smallest form: large blocks, strongest compression */
  size_t info_flags;                     /* json_dumps's, for INFO */
  const struct history_options *history; /* NULL: shows no progress */
};

/* Creates path. info: INFO's object. source_threads: thread numbers passed to the functions below must be less than
   this. options must live as long as the trace is open. Returns NULL with error. */
struct trace_out *trace_out_open(const char *path, const json_t *info, const struct trace_options *options,
                                 uint32_t source_threads, struct error *error);

/* Appends an event with all stamps filled in, as readers return them. Returns 0, or -1: the file can't be written,
   which trace_out_close reports. */
int trace_out_event(struct trace_out *out, uint32_t thread, const struct trace_event *event);

/* The number of the source's thread in the new trace, assigned now if it had none. */
uint32_t trace_out_add_thread(struct trace_out *out, uint32_t thread);

/* The number of the source's thread in the new trace; UINT32_MAX if it has no event there yet. */
uint32_t trace_out_thread(const struct trace_out *out, uint32_t thread);

/* For records that are not events: samples, gaps and so on. */
struct trace_writer *trace_out_writer(struct trace_out *out);

/* The source's thread has no more events. */
int trace_out_end_thread(struct trace_out *out, uint32_t thread);

/* The source's data accesses are left out: notes this in the footer. */
void trace_out_drop_accesses(struct trace_out *out);

/* Writes the remaining data and closes. source: its footer is copied, except its totals and its data accesses. failed:
   error is already set; the file is closed nevertheless. Returns 0, or -1 with error. */
int trace_out_close(struct trace_out *out, const struct trace_summary *source, bool failed, struct error *error);

/* Returns the source's INFO as an object that may be changed; the caller drops the reference. NULL: no memory. */
json_t *trace_out_source_info(const struct trace_summary *source);

/* The sink for ops whose addresses and stamps are unknown or must stay hidden: an event of the new trace for each.

   Each thread's addresses are consecutive and none is used twice, so that objects of two threads never overlap, and the
   reader's predictor expects each address. A stamp is the number of a run of events of one thread, or a time.
   Invariant: if the ops are legal, so is the trace, and the compiler makes the same ops of it. Memory is O(threads).
   Not thread-safe. */
struct op_sink {
  struct trace_out *out;
  struct op_sink_thread {
    uint64_t next_address, region_end;
  } * threads;
  uint64_t regions;
  uint64_t stamp;       /* the last one */
  uint32_t last_thread; /* of the current run; UINT32_MAX: the next event begins one */
};

/* Ops of threads below this number follow. False: no memory; it can be freed either way. */
bool op_sink_init(struct op_sink *sink, struct trace_out *out, uint32_t threads);
void op_sink_free(struct op_sink *sink);

/* Appends the op as an event of that thread, not before the stamp. *address: of the object in the op's slot, kept by
   the caller: read where the op is given it, filled in where it acquires; unused without a slot. Returns as
   trace_out_event. */
int op_sink_put(struct op_sink *sink, const struct history_op *op, uint32_t thread, uint64_t stamp, uint64_t *address);

/* The same for an event that is not an op. Fills in its stamps. */
int op_sink_event(struct op_sink *sink, struct trace_event *event, uint32_t thread, uint64_t stamp);

/* Brings stacks, modules, marks and names of threads from one trace into another, for code that makes traces
   (trace_out.h).

   Memory is O(stack nodes + modules). Not thread-safe. */

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

/* Writes the names of those threads that the new trace has. threads: as in rewrite.h. */
int trace_copy_thread_names(struct trace_reader *reader, struct trace_out *out, const uint32_t *threads,
                            struct error *error);

/* Brings data accesses from one trace into another, for code that makes traces.

   Not thread-safe. */

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

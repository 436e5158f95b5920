/* SPDX-License-Identifier: MIT */
/* Compiles a trace into a workload (WORKLOAD.md): the history's ops as words of their threads, with the waits that keep
   any two ops on one slot in order.

   Not its job: legality (convert/history/history.h hands on legal ops only), the file (core/workload/workload_write.h).
   Invariants: threads are numbered by their first ops, so that the recorded and the replayed number may differ; every
   WAIT points back. Memory is O(live objects + threads). Not thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "convert/whatif/whatif.h"
#include "core/base/vector.h"
#include "core/trace/read/trace_read.h"

#include <jansson.h>

struct compile_outputs {
  const char *workload;
  const char *origins;         /* which call stack acquired each object; NULL: not wanted */
  bool fetch;                  /* for origins: as in origins_writer_finish */
  struct rewriting *rewriting; /* gives the ops instead of history_run; NULL: none; not together with accesses */
  const char *accesses;        /* the trace's data accesses for the workload; NULL: not wanted */
  struct access_order_counts compiled; /* how many of them were compiled or lost; filled in */
};

/* Writes the outputs (created or truncated; on failure they are incomplete and the caller must remove them). Returns 0,
   or -1 with error, also for a trace that is truncated before its first event. */
int compile_trace(struct trace_reader *reader, struct compile_outputs *outputs, const struct history_options *options,
                  struct witness *witness, struct error *error);

/* Writes the origins file beside a workload (docs/use/BLAME.md): which call stack acquired each object, and the
   positions of the marks.

   Job: observe the ops as they are compiled, and write the file. Not its job: the ops (convert/compile/), names of
   functions (convert/stacks/). Invariants: sites are numbered by their first op; a realloc of a live object creates no
   new site. Memory is O(stack nodes + marks + threads). Not thread-safe. */

struct origins_writer;

/* Creates or truncates path. Returns 0, or -1 with error. */
int origins_writer_open(struct origins_writer **out, struct trace_reader *reader, const char *path,
                        struct error *error);

/* Call it for each op, in order. thread: the op's in the workload. Returns 0, or -1 with error. */
int origins_writer_op(struct origins_writer *writer, const struct history_op *op, uint32_t thread, struct error *error);

/* Call it for each step that gives no op, as history_consumer.left_out. */
void origins_writer_left_out(struct origins_writer *writer, const struct merge_step *step);

/* When the workload is complete at that path: looks up symbols (fetch: as in stacks.h), completes the file. Returns 0,
   or -1 with error. */
int origins_writer_finish(struct origins_writer *writer, const char *workload, bool fetch, struct error *error);

/* writer may be NULL. */
void origins_writer_free(struct origins_writer *writer);

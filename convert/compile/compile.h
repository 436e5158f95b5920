/* SPDX-License-Identifier: MIT */
/* Compiles a trace into a workload (WORKLOAD.md): the history's ops as words of their threads, with the waits that keep
   any two ops on one slot in order.

   Not its job: legality (convert/history/history.h hands on legal ops only), the file (core/workload/workload_write.h).
   Invariants: threads are numbered by their first ops, so that the recorded and the replayed number may differ; every
   WAIT points back. Memory is O(live objects + threads). Not thread-safe. */
#pragma once

#include "convert/history/access_order.h"
#include "convert/history/history.h"
#include "core/trace/read/trace_read.h"

#include <jansson.h>

/* Gives other ops than the trace's history, as an option asks that a feature adds to `compile`: the fields of the
   options that are added there (CLI_ADD) are a struct rewriting *, NULL before the first. */
struct rewriting {
  /* As history_run with the rewriting's reader and options; to the consumer, each op is legal after those before.
     witness: the trace's, but ops, live objects and peaks are those of the result. */
  int (*run)(struct rewriting *rewriting, const struct history_consumer *consumer, struct witness *witness,
             struct error *error);
  const char *(*wrong)(const struct rewriting *rewriting, bool with_accesses); /* with the usage; NULL: nothing */
  struct trace_reader *reader; /* this and options: set by compile_trace */
  const struct history_options *options;
  json_t *about; /* filled in by run: what is added to the workload's info (WORKLOAD.md); compile_trace drops it */
};

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

/* SPDX-License-Identifier: MIT */
/* Compiles a trace into a workload (WORKLOAD.md): the history's ops as words of their threads, with the waits that keep
   every two ops on one slot in order.

   Not its job: legality (convert/history/history.h hands on legal ops only), the file (core/workload/workload_write.h).
   Invariants: threads are numbered by their first ops, so that the recorded and the replayed number may differ; every
   WAIT points back. Memory is O(live objects + threads). Not thread-safe. */
#pragma once

#include "convert/compile/compile_accesses.h"

/* Sees the ops as they are compiled. thread: the op's in the workload. op returns 0, or -1 with error. left_out: as
   history.h says. */
struct compile_observer {
  void *context;
  int (*op)(void *context, const struct history_op *op, uint32_t thread, struct error *error);
  void (*left_out)(void *context, const struct merge_step *step);
};

/* Where the ops come from instead of history_run, of which run has the contract. about: afterwards, what was done to
   them, keys of the info JSON; a reference of the caller's. */
struct compile_rewriting {
  void *context;
  int (*run)(void *context, const struct history_consumer *consumer, struct witness *witness, struct error *error);
  json_t *(*about)(void *context);
};

struct compile_outputs {
  const char *workload;
  const struct compile_observer *observer;   /* NULL: none */
  const char *origins;                       /* for an observer of the caller's (convert/origins/); not written here */
  const struct compile_rewriting *rewriting; /* NULL: none; not together with accesses */
  const char *accesses;                      /* the trace's data accesses for the workload; NULL: not wanted */
  struct access_order_counts compiled;       /* what became of them, filled in */
};

/* Writes the outputs (created or truncated; on failure what is there is incomplete and for the caller to remove).
   Returns 0, or -1 with error. */
int compile_trace(struct trace_reader *reader, struct compile_outputs *outputs, const struct history_options *options,
                  struct witness *witness, struct error *error);

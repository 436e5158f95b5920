/* SPDX-License-Identifier: MIT */
/* Compiles a trace into a workload (WORKLOAD.md): the history's ops as words of their threads, with the waits that keep
   any two ops on one slot in order.

   Not its job: legality (convert/history/history.h hands on legal ops only), the file (core/workload/workload_write.h).
   Invariants: threads are numbered by their first ops, so that the recorded and the replayed number may differ; every
   WAIT points back. Memory is O(live objects + threads). Not thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "core/base/files.h"
#include "core/trace/read/trace_read.h"

#include <jansson.h>

/* Gives other ops than the trace's history. */
struct rewriting {
  /* As history_run with the rewriting's reader and options; to the consumer, each op is legal after those before.
     witness: the trace's, but ops, live objects and peaks are those of the result. */
  int (*run)(struct rewriting *rewriting, const struct history_consumer *consumer, struct witness *witness,
             struct error *error);
  const char *(*wrong)(const struct rewriting *rewriting); /* with the usage; NULL: nothing */
  struct trace_reader *reader;                             /* this and options: set by compile_trace */
  const struct history_options *options;
  json_t *about; /* filled in by run: what is added to the workload's info (WORKLOAD.md); compile_trace drops it */
};

/* A file beside the workload. end, finish and warn may be NULL. */
struct compile_file {
  struct compile_file *next;
  const char *path;           /* as given; NULL: not given */
  const char *without_path;   /* what is wrong with the usage then */
  const char *with_rewriting; /* the same if there is a rewriting, too; NULL: nothing */
  struct output_file output;
  /* Creates or truncates output.opened. Returns 0, or -1 with error. */
  int (*open)(struct compile_file *file, struct trace_reader *reader, struct error *error);
  /* Of each op, in order; thread: the op's in the workload. Returns as open. */
  int (*op)(struct compile_file *file, const struct history_op *op, uint32_t thread, struct error *error);
  int (*left_out)(struct compile_file *file, const struct merge_step *step); /* as of history_consumer; returns as op */
  /* After the last op; info: for more keys of the objects of the workload's info, by the objects' names. Returns as
     open. */
  int (*end)(struct compile_file *file, json_t *info, struct error *error);
  /* The workload is complete at that path. Returns as open. */
  int (*finish)(struct compile_file *file, const char *workload, struct error *error);
  void (*close)(struct compile_file *file);
  /* Prints what is missing in the file. in: the trace's name. */
  void (*warn)(const struct compile_file *file, const char *in, const struct trace_reader *reader);
};

/* What options ask for that features add to `compile` (CLI_ADD): their fields lie in it. */
struct compile_added {
  struct rewriting *rewriting; /* NULL: none */
  struct compile_file *files;
};

struct compile_outputs {
  const char *workload;
  struct compile_added added;
};

/* Writes the outputs (created or truncated; on failure they are incomplete and the caller must remove them). Returns 0,
   or -1 with error, also for a trace that is truncated before its first event. */
int compile_trace(struct trace_reader *reader, struct compile_outputs *outputs, const struct history_options *options,
                  struct witness *witness, struct error *error);

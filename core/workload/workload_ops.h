/* SPDX-License-Identifier: MIT */
/* Walks a workload's ops in their recorded total order (WORKLOAD.md), each with all words that belong to it.

   A workload that can't be walked (its schedule does not fit the streams) yields one error, after the ops that could be
   walked. Memory: O(threads + words between two ops). Allocates with malloc. Not thread-safe. */
#pragma once

#include "core/base/vector.h"
#include "core/workload/workload_read.h"

struct workload_ops_op {
  uint64_t position, size_bytes, param, time_ns; /* time_ns: of the last op that had a time */
  uint32_t thread, slot;
  uint64_t touched; /* touched_payload; 0: not known */
  uint64_t region;  /* isolated heap; 0: none */
  uint8_t call;     /* id and flags: a legal combination */
  bool has_time;
  struct buffer waits, starts; /* words */
};

struct workload_ops {
  const struct workload *workload;
  struct workload_stream schedule, *streams; /* streams: of the threads */
  uint64_t run_ops;                          /* ops left in the schedule's present word */
  struct workload_ops_op op;                 /* the last one returned */
};

/* The workload must outlive the walk. Returns 0, or -1 with error; call workload_ops_close in either case. */
int workload_ops_open(struct workload_ops *ops, const struct workload *workload, struct error *error);
void workload_ops_close(struct workload_ops *ops);

/* Advances to the next op. Returns 1; 0 at the end; -1 with error. */
int workload_ops_next(struct workload_ops *ops, struct error *error);

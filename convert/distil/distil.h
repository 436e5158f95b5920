/* SPDX-License-Identifier: MIT */
/* A distillate: a trace of some of a workload's objects, each with all its ops, from which figures of the whole
   workload can be estimated; and the manifest that states how (core/trace/FORMAT.md, INFO's `distilled`).

   Not its job: choosing windows, weights and errors, which are in the plan (plan.h). Invariants: the trace is a legal
   history; every op of a window and its warm-up is there, in its order. Three or four walks over the workload; memory
   is O(slots + threads + windows), and a bit for each op in a temporary file. Not thread-safe. */
#pragma once

#include "convert/distil/plan.h"
#include "core/base/files.h"
#include "core/workload/workload_read.h"

struct distil_counts {
  uint64_t ops, whole_ops, counted_ops, warm_up_ops; /* other ops are between windows */
  uint64_t objects;
};

/* path: NULL: only counts. The workload's ops must be legal (`check`); an illegal op that is noticed is an error, as is
   a plan that does not fit. Returns 0, or -1 with error; then the file is incomplete. */
int distil_write(const struct workload *workload, const struct distil_plan *plan, const char *path,
                 struct distil_counts *counts, struct error *error);

/* Features of the windows of a workload, which have equally many ops each: one row of counts per window, written when
   it ends.

   Output: a line of JSON, {"ops", "window_ops", "windows", "columns": [name, ...]}, then `windows` rows of one u64 per
   column, little-endian. Columns: README.md. Not its job: choosing windows (analysis/heaptape/distil/). One walk;
   memory is O(slots + threads). Not thread-safe. */

/* window_ops: at least 1; the last window has the remaining ops. Returns 0, or -1 with error. */
int window_features_write(const struct workload *workload, uint64_t window_ops, struct output_stream out,
                          struct error *error);

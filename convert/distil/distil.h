/* SPDX-License-Identifier: MIT */
/* Where the windows of the plan are in a distillate, and which position in the whole corresponds to each of its
   positions.

   One walk over all ops. Memory is that of the walk and of the layout. Not thread-safe. */
#pragma once

#include "convert/distil/kept_objects.h"
#include "convert/distil/plan.h"
#include "core/base/vector.h"
#include "core/trace/event.h"
#include "core/workload/workload_read.h"

/* A window's edges: positions in the distillate. */
struct layout_window {
  uint64_t begin, counted, end;
};

struct layout_point {
  uint64_t position, whole;
};

struct layout {
  struct layout_window windows[DISTIL_WINDOWS_LIMIT]; /* by window of the plan */
  VECTOR(struct layout_point) points; /* whole rises strictly, position never falls; (0, 0) to the end */
  uint64_t ops, objects;              /* of the distillate */
  uint64_t whole_calls[CALL_LIMIT];
};

/* kept: chosen; the plan fits the workload. Returns 0, or -1 with error. layout_free in either case. */
int layout_make(struct layout *layout, const struct kept_objects *kept, const struct workload *workload,
                struct error *error);
void layout_free(struct layout *layout);

/* A distillate: a trace of some of a workload's objects, each with all its ops, from which figures of the whole
   workload can be estimated; and the manifest that states how (core/trace/FORMAT.md, INFO's `distilled`).

   Not its job: choosing windows, weights and errors, which are in the plan (plan.h). Invariants: the trace is a legal
   history; every op of a window and its warm-up is there, in its order. Three or four walks over the workload; memory
   is O(slots + threads + windows), and a bit for each op in a temporary file. Not thread-safe. */

struct distil_counts {
  uint64_t ops, whole_ops, counted_ops, warm_up_ops; /* other ops are between windows */
  uint64_t objects;
};

/* path: NULL: only counts. The workload's ops must be legal (`check`); an illegal op that is noticed is an error, as is
   a plan that does not fit. Returns 0, or -1 with error; then the file is incomplete. */
int distil_write(const struct workload *workload, const struct distil_plan *plan, const char *path,
                 struct distil_counts *counts, struct error *error);

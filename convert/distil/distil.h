/* SPDX-License-Identifier: MIT */
/* The plan of a distillate: which windows of a workload it keeps, and what besides them. One JSON object:

   - "windows": [[begin, counted, end, weight], ...], positions in the workload: ops from begin up to counted warm up,
     ops from counted up to end count; rising, without overlaps; may be empty.
   - "heap": which objects a window needs. "live" (default): all that live when it begins; "touched": those that it has
     ops on.
   - "highs": the number of equal parts into which the workload is cut. In each part, objects are kept that live when
     the live bytes of their size class are highest, and those that live when all live bytes are highest. 0
     (default): none are kept.
   - "churn": the share of all other objects that is kept; default 0.
   - "large": {"bytes": n, "share": 1.0}, the share of objects with a request of n bytes or more, at birth or by a
     realloc; default `churn`.
   - "seed": selects the objects of these shares; default 0.
   - "manifest": {...}, more keys of the manifest; optional.

   Job: to read it, whatever it holds. Not its job: checking that it fits the workload (distil.h). */
#pragma once

#include "convert/history/op_walk.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/vector.h"
#include "core/workload/statistics.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Its segments must fit into INFO, which has at most 1 MiB. */
enum { DISTIL_WINDOWS_LIMIT = 4096, DISTIL_HIGHS_LIMIT = 4096 };

enum distil_heap { HEAP_LIVE, HEAP_TOUCHED };

struct distil_window {
  uint64_t begin, counted, end;
  double weight;
};

struct distil_plan {
  VECTOR(struct distil_window) windows;
  enum distil_heap heap;
  uint64_t highs;
  double churn, large_share;
  uint64_t large_bytes; /* UINT64_MAX: none is large */
  uint64_t seed;
  json_t *manifest; /* an object */
  /* Not in the JSON: the workload's data accesses (core/trace/access_stream.h); windows include their accesses and
     also need the objects that these access. NULL: none. */
  const char *accesses;
};

/* name: in errors. Returns 0, or -1 with error. distil_plan_free in either case. */
int distil_plan_parse(struct distil_plan *plan, const char *text, size_t bytes, const char *name, struct error *error);
void distil_plan_free(struct distil_plan *plan);

/* Is the op at that position in a window or its warm-up? window: 0 at first; positions must not fall. */
static inline bool distil_plan_has(const struct distil_plan *plan, size_t *window, uint64_t position) {
  while (*window < plan->windows.count && position >= plan->windows.at[*window].end)
    ++*window;
  return *window < plan->windows.count && position >= plan->windows.at[*window].begin;
}

/* Classes of request sizes: the buckets of core/workload/statistics.h; the last has no upper limit. Thread-safe. */

enum { SIZE_CLASSES = 128 };

static inline unsigned size_class(uint64_t bytes) {
  unsigned bucket = size_bucket(bytes);
  return bucket < SIZE_CLASSES ? bucket : SIZE_CLASSES - 1;
}

/* Which objects of a workload a distillate has: those that the plan's rules select (the plan).

   Whether an object lives into a window, or to a high of its size class, is known only there. So walks over all ops
   mark objects in a temporary file, one bit each; later walks look up the bit at each birth. Memory is O(slots), and
   that file. Not thread-safe. */

struct kept_objects {
  const struct distil_plan *plan;
  struct temporary_file file;
  uint8_t *marks; /* the file, mapped */
  uint64_t marks_bytes;
};

/* Walks over all ops. The plan must outlive kept. Returns 0, or -1 with error; kept_objects_free in either case. */
int kept_objects_choose(struct kept_objects *kept, const struct workload *workload, const struct distil_plan *plan,
                        struct error *error);
void kept_objects_free(struct kept_objects *kept);

/* Is the object of that number wanted? */
static inline bool kept_objects_wants(const struct kept_objects *kept, uint64_t number) {
  return number / 8 < kept->marks_bytes && (kept->marks[number / 8] >> number % 8 & 1);
}

/* A distillate: a trace of some of a workload's objects, each with all its ops, from which figures of the whole
   workload can be estimated; and the manifest that states how (core/trace/FORMAT.md, INFO's `distilled`).

   Not its job: choosing windows, weights and errors, which are in the plan. Invariants: the trace is a legal
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

/* Features of the windows of a workload, which have equally many ops each: one row of counts per window, written when
   it ends.

   Output: a line of JSON, {"ops", "window_ops", "windows", "columns": [name, ...]}, then `windows` rows of one u64 per
   column, little-endian. Columns: README.md. Not its job: choosing windows (analysis/heaptape/distil/). One walk;
   memory is O(slots + threads). Not thread-safe. */

/* window_ops: at least 1; the last window has the remaining ops. Returns 0, or -1 with error. */
int window_features_write(const struct workload *workload, uint64_t window_ops, struct output_stream out,
                          struct error *error);

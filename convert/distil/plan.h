/* SPDX-License-Identifier: MIT */
/* The plan of a distillate: which windows of a workload it keeps, and what beside them. One JSON object:

   - "windows": [[begin, counted, end, weight], ...], positions in the workload: ops from begin up to counted warm up,
     those from counted up to end count; rising, none overlaps; may be empty.
   - "heap": which objects a window needs. "live" (if absent): all that are there when it begins; "touched": those that
     it has ops on.
   - "highs": into how many equal parts the workload is cut; in each, objects are kept that are live when the live bytes
     of their size class are at their high, and those that are live when all live bytes are at theirs (highs.h). 0 (if
     absent): none are.
   - "churn": the share of all other objects that is kept; 0 if absent.
   - "large": {"bytes": n, "share": 1.0}, the share of those that have a request of so many bytes and more, at birth or
     by a realloc; `churn` if absent.
   - "seed": which objects those shares are; 0 if absent.
   - "manifest": {...}, more of the manifest; may be absent.

   Job: to read it, whatever it holds. Not its job: whether it fits the workload (distil.h). */
#pragma once

#include "core/base/error.h"
#include "core/base/vector.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Its segments must fit into INFO, which is 1 MiB at most. */
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
  /* Not in the JSON: the workload's data accesses (core/accesses/replay_file.h); windows have theirs, and need the
     objects that they access, too. NULL: none. */
  const char *accesses;
};

/* name: in errors. Returns 0, or -1 with error. distil_plan_free in either case. */
int distil_plan_parse(struct distil_plan *plan, const char *text, size_t bytes, const char *name, struct error *error);
void distil_plan_free(struct distil_plan *plan);

/* Does a window or its warm-up have the op at that position? window: 0 at first; positions must not fall. */
static inline bool distil_plan_has(const struct distil_plan *plan, size_t *window, uint64_t position) {
  while (*window < plan->windows.count && position >= plan->windows.at[*window].end)
    ++*window;
  return *window < plan->windows.count && position >= plan->windows.at[*window].begin;
}

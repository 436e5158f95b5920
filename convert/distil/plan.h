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

#include "core/base/error.h"
#include "core/base/vector.h"

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

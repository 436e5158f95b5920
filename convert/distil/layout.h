/* SPDX-License-Identifier: MIT */
/* Where the windows of the plan are in a distillate, and which position in the whole corresponds to each of its
   positions.

   One walk over all ops. Memory is that of the walk and of the layout. Not thread-safe. */
#pragma once

#include "convert/distil/kept_objects.h"
#include "core/base/vector.h"
#include "core/trace/event.h"

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

/* SPDX-License-Identifier: MIT */
/* The time line of a workload (WORKLOAD.md): thousands of points of live bytes and objects by position, and the peak.
   Fed op by op; memory is bounded by constants. Not thread-safe. */
#pragma once

#include "core/workload/workload.h"

#include <stddef.h>

enum { TIME_LINE_POINTS = 4096 };

struct time_line {
  uint64_t interval;   /* ops between points, at least 1 */
  uint64_t next_point; /* position */
  uint32_t point_count;
  struct workload_time_point points[TIME_LINE_POINTS + 3];
  struct workload_time_point peak; /* the point with the most live bytes */
};

/* Adds a point that is due; called by time_line_op. */
void time_line_add(struct time_line *line, const struct workload_time_point *now);

/* The op at now->position is next; the other fields are the state before it. */
static inline void time_line_op(struct time_line *line, const struct workload_time_point *now) {
  if (now->position == line->next_point)
    time_line_add(line, now);
  if (now->live_bytes > line->peak.live_bytes)
    line->peak = *now;
}

/* After the last op: returns the points for workload_writer_close; line owns them. */
const struct workload_time_point *time_line_finish(struct time_line *line, const struct workload_time_point *end,
                                                   size_t *count);

/* SPDX-License-Identifier: MIT */
/* What a workload says about its ops: the time line (WORKLOAD.md), thousands of points of live bytes and objects by
   position, and the peak; request sizes in buckets that quarter each power of two: 0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12,
   14, 16, 20, ... bytes.

   Fed op by op; memory is bounded by constants. Not thread-safe. Its functions are in workload_ops.c. */
#pragma once

#include "core/workload/workload.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

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

enum { SIZE_BUCKETS = 256 };

struct size_histogram {
  struct {
    uint64_t count, bytes;
  } buckets[SIZE_BUCKETS];
};

static inline unsigned size_bucket(uint64_t size_bytes) {
  if (size_bytes < 4)
    return (unsigned)size_bytes;
  unsigned log = 63 - (unsigned)__builtin_clzll(size_bytes);
  return 4 * (log - 1) + (unsigned)(size_bytes >> (log - 2) & 3);
}

/* The smallest size in a bucket. */
static inline uint64_t size_bucket_lower(unsigned bucket) {
  return bucket < 4 ? bucket : (uint64_t)(4 + bucket % 4) << (bucket / 4 - 1);
}

static inline void size_histogram_add(struct size_histogram *histogram, uint64_t size_bytes) {
  unsigned bucket = size_bucket(size_bytes);
  histogram->buckets[bucket].count++;
  histogram->buckets[bucket].bytes += size_bytes;
}

/* [[smallest size of the bucket, count, bytes], ...] for each bucket that is not empty. */
json_t *size_histogram_json(const struct size_histogram *histogram);

/* SPDX-License-Identifier: MIT */
#include "core/workload/statistics.h"

#include <string.h>

void time_line_add(struct time_line *line, const struct workload_time_point *now) {
  /* Where the number of ops was unknown, or there are more than were announced, the points get sparser. */
  if (line->point_count == TIME_LINE_POINTS) {
    for (uint32_t i = 0; i < TIME_LINE_POINTS / 2; i++)
      line->points[i] = line->points[2 * i];
    line->point_count = TIME_LINE_POINTS / 2;
    line->interval *= 2;
  }
  line->points[line->point_count++] = *now;
  line->next_point += line->interval;
}

const struct workload_time_point *time_line_finish(struct time_line *line, const struct workload_time_point *end,
                                                   size_t *count) {
  if (line->point_count == 0 || line->points[line->point_count - 1].position < end->position)
    line->points[line->point_count++] = *end;
  uint32_t at = line->point_count;
  while (at > 0 && line->points[at - 1].position > line->peak.position)
    at--;
  if (line->peak.live_bytes && line->points[at - 1].position != line->peak.position) {
    memmove(&line->points[at + 1], &line->points[at], (line->point_count - at) * sizeof line->points[0]);
    line->points[at] = line->peak;
    line->point_count++;
  }
  *count = line->point_count;
  return line->points;
}

json_t *size_histogram_json(const struct size_histogram *histogram) {
  json_t *rows = json_array();
  for (unsigned i = 0; i < SIZE_BUCKETS; i++)
    if (histogram->buckets[i].count)
      json_array_append_new(rows, json_pack("[I,I,I]", (json_int_t)size_bucket_lower(i),
                                            (json_int_t)histogram->buckets[i].count,
                                            (json_int_t)histogram->buckets[i].bytes));
  return rows;
}

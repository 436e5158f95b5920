/* SPDX-License-Identifier: MIT */
#include "core/sharing/line_sharing_json.h"

#include "core/base/json.h"
#include "core/base/vector.h"

#include <stdlib.h>

static double mean(uint64_t sum, uint64_t ops) {
  return ops ? (double)sum / (double)ops : 0;
}

static json_t *level_json(const struct line_level *level, uint64_t ops) {
  return json_pack("{s:o, s:o, s:o, s:f}", "end", json_unsigned(level->now), "peak", json_unsigned(level->peak),
                   "peak_position", json_unsigned(level->peak_position), "mean", mean(level->sum, ops));
}

static json_t *sizes_json(const struct line_sharing_counts *counts) {
  json_t *rows = json_array();
  for (unsigned class = 0; class < LINE_SHARING_SIZES; class ++) {
    const struct line_sharing_size *size = &counts->sizes[class];
    if (size->objects == 0)
      continue;
    json_t *up_to = class == LINE_SHARING_SIZES - 1 ? json_null() : json_unsigned(line_sharing_size_last(class));
    json_array_append_new(rows, json_pack("[o,o,o,o]", up_to, json_unsigned(size->objects),
                                          json_unsigned(size->shared_objects), json_unsigned(size->pairs)));
  }
  return rows;
}

static int most_pairs_first(const void *left, const void *right) {
  const struct line_sharing_threads *a = left, *b = right;
  return COMPARE(b->pairs, a->pairs) ?: COMPARE(a->first, b->first) ?: COMPARE(a->second, b->second);
}

static json_t *threads_json(struct line_sharing_counts *counts, uint64_t *left_out) {
  qsort(counts->threads, LINE_SHARING_PAIRS, sizeof *counts->threads, most_pairs_first);
  json_t *rows = json_array();
  *left_out = counts->threads_left_out;
  for (unsigned i = 0; i < LINE_SHARING_PAIRS && counts->threads[i].pairs; i++) {
    const struct line_sharing_threads *threads = &counts->threads[i];
    if (i >= LINE_SHARING_THREADS_LISTED)
      *left_out += threads->pairs;
    else
      json_array_append_new(rows, json_pack("[o,o,o,f]", json_unsigned(threads->first), json_unsigned(threads->second),
                                            json_unsigned(threads->pairs), mean(threads->sum, counts->ops)));
  }
  return rows;
}

static json_t *progress_json(const struct line_sharing_counts *counts) {
  json_t *rows = json_array();
  for (uint64_t i = 0; i < counts->row_count; i++) {
    const struct line_sharing_row *row = &counts->rows[i];
    json_array_append_new(rows, json_pack("[o,o,o,o,o]", json_unsigned(row->position), json_unsigned(row->shared_lines),
                                          json_unsigned(row->object_pairs), json_unsigned(row->live_lines),
                                          json_unsigned(row->shared_lines_peak)));
  }
  return rows;
}

json_t *line_sharing_json(struct line_sharing_counts *counts) {
  uint64_t left_out;
  json_t *threads = threads_json(counts, &left_out);
  return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "line_bytes",
                   LINE_BYTES, "sampled", json_unsigned(counts->sampled), "ops", json_unsigned(counts->ops), "objects",
                   json_unsigned(counts->objects), "shared_objects", json_unsigned(counts->shared_objects), "pairs",
                   json_unsigned(counts->pairs), "used_pairs", json_unsigned(counts->used_pairs), "objects_left_out",
                   json_unsigned(counts->objects_left_out), "shared_lines",
                   level_json(&counts->shared_lines, counts->ops), "object_pairs",
                   level_json(&counts->object_pairs, counts->ops), "live_lines",
                   level_json(&counts->live_lines, counts->ops), "sizes", sizes_json(counts), "threads", threads,
                   "threads_left_out", json_unsigned(left_out), "progress", progress_json(counts));
}

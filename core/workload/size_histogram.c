/* SPDX-License-Identifier: MIT */
#include "core/workload/size_histogram.h"

json_t *size_histogram_json(const struct size_histogram *histogram) {
  json_t *rows = json_array();
  for (unsigned i = 0; i < SIZE_BUCKETS; i++)
    if (histogram->buckets[i].count)
      json_array_append_new(rows, json_pack("[I,I,I]", (json_int_t)size_bucket_lower(i),
                                            (json_int_t)histogram->buckets[i].count,
                                            (json_int_t)histogram->buckets[i].bytes));
  return rows;
}

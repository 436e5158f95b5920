/* SPDX-License-Identifier: MIT */
/* Request sizes in buckets that quarter each power of two: 0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, ... bytes. */
#pragma once

#include <jansson.h>
#include <stdint.h>

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

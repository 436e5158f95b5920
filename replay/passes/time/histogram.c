/* SPDX-License-Identifier: MIT */
#include "replay/passes/time/histogram.h"

uint64_t histogram_lower(unsigned bucket) {
  if (bucket < (2u << HISTOGRAM_SUB_BITS))
    return bucket;
  unsigned shift = (bucket >> HISTOGRAM_SUB_BITS) - 1;
  return (uint64_t)(bucket - (shift << HISTOGRAM_SUB_BITS)) << shift;
}

void histogram_merge(struct histogram *into, const struct histogram *from) {
  for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
    into->counts[bucket] += from->counts[bucket];
}

uint64_t histogram_percentile(const struct histogram *histogram, double share) {
  uint64_t total = 0;
  for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
    total += histogram->counts[bucket];
  if (total == 0)
    return 0;
  uint64_t rank = (uint64_t)(share * (double)total);
  if (rank >= total)
    rank = total - 1;
  uint64_t seen = 0;
  unsigned bucket = 0;
  while ((seen += histogram->counts[bucket]) <= rank)
    bucket++;
  return (histogram_lower(bucket) + histogram_lower(bucket + 1) - 1) / 2;
}

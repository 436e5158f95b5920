/* SPDX-License-Identifier: MIT */
#include "allocators/common/allocator.h"
#include "allocators/common/counters.h"

size_t heaptape_allocator_stats(struct allocator_stat *stats, size_t limit) {
  static const char *const names[] = {
#define COUNTER(name, meaning) #name,
#include ALLOCATOR_COUNTERS
#undef COUNTER
  };
  uint64_t sums[COUNTERS];
  if (!tunables.stats)
    return 0;
  counters_sum(sums);
  for (size_t index = 0; index < COUNTERS && index < limit; index++)
    stats[index] = (struct allocator_stat){names[index], sums[index]};
  return COUNTERS;
}

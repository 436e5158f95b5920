#include "allocators/reference/base/counters.h"
#include "allocators/reference/reference.h"

size_t reference_stats(struct reference_stat *stats, size_t limit) {
  static const char *const names[] = {
#define COUNTER(name, meaning) #name,
#include "allocators/reference/base/counters.def"
#undef COUNTER
  };
  uint64_t sums[COUNTERS];
  if (!tunables.stats)
    return 0;
  counters_sum(sums);
  for (size_t index = 0; index < COUNTERS && index < limit; index++)
    stats[index] = (struct reference_stat){names[index], sums[index]};
  return COUNTERS;
}

/* SPDX-License-Identifier: MIT */
#include "replay/engine/allocator_stats.h"

#include <stddef.h>
#include <string.h>

/* As in allocators/common/allocator.h; replay/ includes nothing of allocators/. */
struct allocator_stat {
  const char *name;
  uint64_t value;
};
/* Weak, not dlsym: a failing dlsym calls malloc for its message. */
extern size_t heaptape_allocator_stats(struct allocator_stat *stats, size_t limit)
    __attribute__((weak, visibility("default")));

void allocator_stats_read(struct allocator_stats *stats) {
  stats->count = 0;
  if (!heaptape_allocator_stats)
    return;
  struct allocator_stat read[ALLOCATOR_STATS];
  size_t count = heaptape_allocator_stats(read, ALLOCATOR_STATS);
  stats->count = (uint32_t)(count < ALLOCATOR_STATS ? count : ALLOCATOR_STATS);
  for (uint32_t index = 0; index < stats->count; index++) {
    strncpy(stats->stats[index].name, read[index].name, ALLOCATOR_STAT_NAME_BYTES - 1);
    stats->stats[index].value = read[index].value;
  }
}

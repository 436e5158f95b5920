/* SPDX-License-Identifier: MIT */
#include "allocators/reference/base/settings.h"

#include "allocators/reference/base/chunk.h"

size_t fast_max_bytes = FAST_MAX_BYTES, quick_max_bytes = FAST_MAX_BYTES;
bool dynamic_thresholds = true;

void settings_setup(void) {
  if (!tunables.fastbins)
    fast_max_bytes = 0;
  if (tunables.tcache_count == 0)
    tunables.tcache = 0;
  size_t cached_max_bytes = chunk_bytes_for(tunables.tcache_max);
  if (tunables.tcache && cached_max_bytes > quick_max_bytes)
    quick_max_bytes = cached_max_bytes;
  dynamic_thresholds = !tunables_set.mmap_threshold && !tunables_set.trim_threshold;
}

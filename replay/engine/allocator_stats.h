/* SPDX-License-Identifier: MIT */
/* What the allocator itself counted, where it offers counts: our own allocators do, with their tunable stats.

   Read in the engine's process after the last op, printed by the parent as "reference_stats": the key is older than our
   other allocators. */
#pragma once

#include <stdint.h>

enum { ALLOCATOR_STATS = 64, ALLOCATOR_STAT_NAME_BYTES = 32 };

struct allocator_stats {
  uint32_t count; /* 0: the allocator counts nothing */
  struct {
    char name[ALLOCATOR_STAT_NAME_BYTES];
    uint64_t value;
  } stats[ALLOCATOR_STATS];
};

/* Fills in the counts of this process's allocator, if it has any. Do not call while other threads start or end. */
void allocator_stats_read(struct allocator_stats *stats);

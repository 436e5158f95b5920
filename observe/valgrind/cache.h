/* SPDX-License-Identifier: GPL-2.0-only */
/* A set-associative cache of blocks with least-recently-used replacement: a cache of lines, or a TLB, whose blocks are
   OS pages.

   Job: does an access hit? Invariants: a set's ways are in the order of their last use, newest first; each access makes
   its block the newest, hit or miss, read or write. This is cachegrind's model. */
#pragma once

#include <pub_tool_basics.h>

struct cache {
  UWord set_mask; /* sets - 1; their number is a power of two */
  UInt ways, block_shift;
  UWord *blocks; /* by set and way; CACHE_EMPTY: none */
};

#define CACHE_EMPTY (~(UWord)0)

/* Looks up block and makes it the newest of its set. Returns whether it was missing. */
static inline Bool cache_misses_block(struct cache *cache, UWord block) {
  UWord *set = cache->blocks + (block & cache->set_mask) * cache->ways;
  UWord moved = set[0];
  if (moved == block)
    return False;
  for (UInt way = 1; way < cache->ways; way++) {
    UWord here = set[way];
    set[way] = moved;
    if (here == block) {
      set[0] = block;
      return False;
    }
    moved = here;
  }
  set[0] = block;
  return True;
}

/* The same for all blocks that the access covers, at most two; one miss is counted where both are missing. */
static inline Bool cache_misses(struct cache *cache, Addr address, UWord bytes) {
  UWord first = address >> cache->block_shift, last = (address + bytes - 1) >> cache->block_shift;
  Bool missing = cache_misses_block(cache, first);
  if (last != first)
    missing |= cache_misses_block(cache, last);
  return missing;
}

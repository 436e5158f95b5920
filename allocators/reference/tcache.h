/* SPDX-License-Identifier: MIT */
/* The cache of each thread: per chunk size, a short list of objects that were freed and count as used for everybody
   else. Taking one and putting one back needs no lock and a dozen instructions (after Bonwick's magazines).

   A thread without a cache has `no_cache`, which is empty and has no room, so the paths of malloc and free that are
   inlined there need no test for it. Two limits are kept apart: what the cache serves, and what it serves inline. The
   latter is nothing where calls must be counted or objects filled (tunables stats, perturb): those paths are in
   malloc_slow and free_slow only, and cost nothing where they are off. */
#pragma once

#include "allocators/common/tunables.h"
#include "allocators/reference/arena/thread.h"
#include "allocators/reference/base/chunk.h"

/* Number of the bin for a chunk. */
static inline size_t tcache_number(size_t chunk_bytes) {
  return chunk_bytes / CHUNK_ALIGNMENT - CHUNK_MIN_BYTES / CHUNK_ALIGNMENT;
}

_Static_assert(sizeof(struct tcache_bin) == CHUNK_ALIGNMENT, "a bin's place follows from the size without a division");

/* The bin for a request below inline_limit_bytes: the first one up to 24 bytes, the next up to 40. */
static inline struct tcache_bin *tcache_bin_for_request(struct tcache *cache, size_t object_bytes) {
  size_t behind = (object_bytes + CHUNK_OVERHEAD - 1) & ~(size_t)(CHUNK_ALIGNMENT - 1);
  if (UNLIKELY(behind == 0)) {
    behind = CHUNK_ALIGNMENT;
    __asm__("" : "+r"(behind)); /* keeps this a branch: one instruction, where the larger of two numbers takes three */
  }
  return (struct tcache_bin *)((char *)cache->bins + behind) - 1;
}

/* Gives the calling thread a cache if it may have one: where thread.cache is no_cache. Returns thread.cache. */
struct tcache *tcache_make(void);

/* The calling thread's bin for chunks of that many bytes; makes the cache if there is none yet. NULL: no such bin. */
static inline struct tcache_bin *tcache_bin_for(size_t chunk_bytes) {
  struct tcache *cache = thread.cache;
  size_t number = tcache_number(chunk_bytes);
  if (UNLIKELY(cache == &no_cache)) {
    if (!tunables.tcache)
      return NULL;
    cache = tcache_make();
  }
  return LIKELY(number < cache->bin_count) ? &cache->bins[number] : NULL;
}

/* Gives back all objects but the keep that were put in last. Takes arenas' locks. */
void tcache_flush(struct tcache_bin *bin, uint32_t keep);

/* Ends the process if the object is in this bin: it has the key of one. */
void tcache_check_double_free(const struct tcache_bin *bin, const struct cached *object);

/* Before the first call of anything else here. */
void tcache_setup(void);

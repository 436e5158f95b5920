/* SPDX-License-Identifier: MIT */
/* The cache of each thread: per chunk size, a short list of freed objects that count as used for everything else.
   Taking one and putting one back needs no lock and a dozen instructions (after Bonwick's magazines).

   A thread without a cache has `no_cache`, which is empty and has no room, so the inlined paths of malloc and free need
   no test for it. There are two separate limits: what the cache serves, and what it serves inline. The latter is
   nothing where calls must be counted or objects filled or lost (tunables stats, perturb, leak): those paths are in
   malloc_slow and free_slow only, and cost nothing where they are off. */
#pragma once

#include "allocators/common/counters.h"
#include "allocators/reference/arena.h"
#include "allocators/reference/chunk.h"

/* Returns the number of the bin for a chunk. */
static inline size_t tcache_number(size_t chunk_bytes) {
  return chunk_bytes / CHUNK_ALIGNMENT - CHUNK_MIN_BYTES / CHUNK_ALIGNMENT;
}

_Static_assert(sizeof(struct tcache_bin) == CHUNK_ALIGNMENT, "a bin's place follows from the size without a division");

/* Returns the bin for a request below inline_limit_bytes: the first one up to 24 bytes, the next up to 40. */
static inline struct tcache_bin *tcache_bin_for_request(struct tcache *cache, size_t object_bytes) {
  size_t behind = (object_bytes + CHUNK_OVERHEAD - 1) & ~(size_t)(CHUNK_ALIGNMENT - 1);
  if (UNLIKELY(behind == 0)) {
    behind = CHUNK_ALIGNMENT;
    __asm__("" : "+r"(behind)); /* keeps this a branch: one instruction, while a maximum takes three */
  }
  return (struct tcache_bin *)((char *)cache->bins + behind) - 1;
}

/* A bin that the thread has not made yet (tunable tcache_on_request) has neither objects nor room, so what is freed
   finds it full. The first request of its size makes it. */
static inline bool tcache_bin_is_made(const struct tcache_bin *bin) {
  return bin->room > 0 || bin->first;
}

/* For a request that is served by this bin, or by none (NULL). */
static inline void tcache_make_bin(struct tcache_bin *bin) {
  if (bin && !tcache_bin_is_made(bin))
    bin->room = (uint32_t)tunables.tcache_count;
}

/* Gives the calling thread, whose thread.cache is no_cache, a cache if it may have one. Returns thread.cache. */
struct tcache *tcache_make(void);

/* Returns the calling thread's bin for chunks of chunk_bytes; makes the cache if needed. NULL: no such bin. */
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

/* Bins of many sizes (tunable tcache_large), for chunks that tcache_bin_for has no bin for: each is a list sorted by
   size, of which only a chunk of exactly the requested size is taken, as glibc does from 2.42 on. The first returns the
   object, or NULL; the second a bin with room, or NULL, for the third. */
struct cached *tcache_take_large(size_t chunk_bytes);
struct tcache_bin *tcache_large_with_room(size_t chunk_bytes);
void tcache_put_large(struct tcache_bin *bin, struct cached *object);

/* Gives back all objects except the `keep` newest. Takes arenas' locks. */
void tcache_flush(struct tcache_bin *bin, uint32_t keep);

/* Ends the process if the object, which has a cached object's key, is in this bin. */
void tcache_check_double_free(const struct tcache_bin *bin, const struct cached *object);

/* Call before anything else here. */
void tcache_setup(void);

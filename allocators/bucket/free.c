/* SPDX-License-Identifier: MIT */
/* free, from entry to return, in the order of an object's steps:

     free               the header shows where the object belongs; any inconsistency ends the process
     cache_release (heap/cache.c)
                        of a cache: its bit is set, under the cache's lock or by an atomic operation. No other lock: any
                        thread frees into any bucket
     free_slow          an aligned object: the object that contains it is freed
     oversize_release (heap/oversize.c)
                        an oversize block: merged with its free neighbours and put into the tree, under the one lock */
#include "allocators/bucket/base/block.h"
#include "allocators/bucket/heap/cache.h"
#include "allocators/bucket/heap/oversize.h"
#include "allocators/common/entry.h"

#include "allocators/bucket/heap/buckets.h"
#include "allocators/common/counters.h"

static void free_slow(struct block *block);

void allocator_free(void *object) {
  if (UNLIKELY(!object))
    return;
  if (UNLIKELY(tunables.stats))
    buckets_watch_end();
  struct block *block = block_checked("free", object);
  if (UNLIKELY(block_kind(block) != BLOCK_CACHED)) {
    free_slow(block);
    return;
  }
  struct cache *cache = block_owner(block);
  cache_check("free", cache);
  COUNT(cached_frees);
  cache_release(cache, block);
}

static __attribute__((noinline)) void free_slow(struct block *block) {
  if (block_kind(block) == BLOCK_OVERSIZE) {
    COUNT(oversize_frees);
    oversize_release("free", block_owner(block));
    return;
  }
  void *outer = block_owner(block);
  block_mark_free(block);
  allocator_free(outer);
}

PUBLIC_NAME(void, free, (void *object), allocator_free);
PUBLIC_NAME(void, cfree, (void *object), allocator_free);

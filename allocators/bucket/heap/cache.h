/* SPDX-License-Identifier: MIT */
/* A cache: a span of memory divided into blocks of one size, with a bit for each, set while the block is free.

        cache ->  | struct cache | bits | block | block | ... |

   Blocks are taken by one thread at a time: the one that holds the bucket's lock, or that owns the bucket. Any thread
   may release them. The tunable cache_lock decides how the two are synchronised: by the cache's lock (as in libmtmalloc
   at first), or by atomic operations on the bits and on the count (as in libmtmalloc since).

   Not its job: which cache serves a request (bucket.h). Caches are never unmapped. */
#pragma once

#include "allocators/bucket/base/block.h"
#include "allocators/common/base/futex.h"

#include <stdatomic.h>

enum { CACHE_WORD_BITS = 64 };

struct cache {
  /* Constant; the seal is of the sizes, the counter and the place. */
  uint32_t block_bytes, block_count;
  uint32_t words;          /* of free_bits */
  uint32_t blocks_offset;  /* of the first block, from the cache's start */
  _Atomic uint32_t *count; /* free blocks, in the bucket's row, where a search reads it; exact while no call runs */
  uintptr_t seal;
  /* Fields that change, in a separate cache line. */
  _Alignas(64) struct lock lock;
  uint32_t hint;           /* the word where the last free bit was found; of the thread that takes */
  _Atomic uint32_t unused; /* blocks from this one on were never handed out */
  _Alignas(64) _Atomic uint64_t free_bits[];
};

/* Maps a cache for blocks of block_bytes, headers included; all are free. count: where its free blocks will be counted.
   NULL: no memory. */
struct cache *cache_make(size_t block_bytes, _Atomic uint32_t *count);

/* Takes a free block, with its header. NULL: there was none after all. Not for two threads at once. */
struct block *cache_take(struct cache *cache);

/* Frees a used block of this cache. From any thread. */
void cache_release(struct cache *cache, struct block *block);

/* Gives back the OS pages that contain only free blocks. Returns whether there were any. From any thread. */
bool cache_purge(struct cache *cache);

/* Calls visit for each block, in order of address; once for all blocks that were never handed out. The states of blocks
   are exact while no thread takes or releases. From any thread. */
typedef void cache_visit(const void *address, size_t bytes, unsigned state, void *context);
void cache_walk(struct cache *cache, cache_visit *visit, void *context);

/* In a forked child, where no other thread uses the cache: counts the free blocks again, as a thread may have been
   about to. */
void cache_after_fork(struct cache *cache);

static inline uintptr_t cache_seal(const struct cache *cache) {
  uintptr_t sizes = (uintptr_t)cache->block_bytes << 32 | cache->block_count;
  return sizes ^ (uintptr_t)cache ^ (uintptr_t)cache->count ^ block_secret;
}

/* Ends the process if the cache's head was overwritten. */
static inline void cache_check(const char *where, const struct cache *cache) {
  if (UNLIKELY(cache->seal != cache_seal(cache)))
    fault(where, "overwritten head of a cache", cache);
}

/* Returns the usable bytes of a block of this cache. */
static inline size_t cache_object_bytes(const struct cache *cache) {
  return cache->block_bytes - sizeof(struct block);
}

/* SPDX-License-Identifier: MIT */
/* Buckets: caches of blocks of one size, the bucket that has them, and which bucket a thread uses. */
#pragma once

#include "allocators/bucket/block.h"
#include "allocators/common/base.h"

#include <stdatomic.h>
#include <stdio.h>

/* A cache: a span of memory divided into blocks of one size, with a bit for each, set while the block is free.

        cache ->  | struct cache | bits | block | block | ... |

   Blocks are taken by one thread at a time: the one that holds the bucket's lock, or that owns the bucket. Any thread
   may release them. The tunable cache_lock decides how the two are synchronised: by the cache's lock (as in libmtmalloc
   at first), or by atomic operations on the bits and on the count (as in libmtmalloc since).

   Not its job: which cache serves a request, which thread has which bucket. Caches are never unmapped. */

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

/* A bucket: for each size class, the caches that serve requests of its threads.

   Classes are the powers of two from 16 bytes to the tunable max_cached. For each class a bucket has rows of caches,
   with the numbers of free blocks side by side, so that a search for a cache with a free block reads few cache lines.
   A search starts at the cache that served the last request.

   Only the thread that holds the bucket's lock, or that owns
   the bucket, may take; any thread may walk, because caches are only added. */

enum {
  CLASS_MIN_SHIFT = 4, /* the smallest class: 16 bytes */
  CLASS_MAX_SHIFT = 21,
  CLASSES = CLASS_MAX_SHIFT - CLASS_MIN_SHIFT + 1,
  ROW_CACHES = 168, /* a row is 2 KiB */
};

struct row {
  struct row *_Atomic next;
  _Atomic uint32_t counts[ROW_CACHES]; /* free blocks of each cache; 0 where there is none yet */
  struct cache *_Atomic caches[ROW_CACHES];
};

/* The caches of one class. */
struct shelf {
  struct row *_Atomic first;
  struct row *last, *hint_row;
  uint32_t last_used, hint; /* places in the last row that have a cache; the place that served last */
};

struct bucket {
  _Alignas(64) struct lock lock; /* the parent lock: around each take, if threads share the bucket */
  bool own;                      /* one thread's: taking needs no lock */
  struct shelf shelves[CLASSES];
};

/* Returns the class of a request of at most max_cached bytes. */
static inline unsigned class_of(size_t object_bytes) {
  return object_bytes <= 1 << CLASS_MIN_SHIFT
             ? 0
             : 64 - CLASS_MIN_SHIFT - (unsigned)__builtin_clzl((unsigned long)object_bytes - 1);
}

static inline size_t class_bytes(unsigned size_class) {
  return (size_t)1 << (CLASS_MIN_SHIFT + size_class);
}

/* Returns a used block of that class, from a cache with a free block or from a new cache. NULL: no memory. */
struct block *bucket_take(struct bucket *bucket, unsigned size_class);

/* All buckets, and which of them a thread uses.

   The number of shared buckets is the tunable `buckets`, by default two for each processor, rounded up to a power of
   two; a thread uses the bucket of its number modulo this count. Under exclusive=1 there are as many additional buckets
   that belong to one thread each: to threads with a number below that count, which take no parent lock. */

struct thread {
  struct bucket *bucket; /* NULL: none yet */
  int number;
  bool watched; /* its end will be detected */
};

extern __thread struct thread thread __attribute__((tls_model("initial-exec"))) HIDDEN;

/* Gives the thread a number and a bucket. NULL: no memory for buckets. */
struct bucket *buckets_attach(void);

/* Returns the calling thread's bucket. */
static inline struct bucket *bucket_mine(void) {
  return LIKELY(thread.bucket != NULL) ? thread.bucket : buckets_attach();
}

/* Makes sure that the thread's end is detected: for its counts, even if it only frees. No lock may be held, as this may
   allocate. */
void buckets_watch_end(void);

/* Call as the thread ends: gives back its number. Its last calls are served from a shared bucket. */
void buckets_detach(void);

/* Calls visit for each cache of each bucket, bucket by bucket, under the parent lock where the bucket is shared.; false
   from visit ends the bucket. */
typedef bool bucket_visit(struct cache *cache, void *context);
void buckets_each_cache(bucket_visit *visit, void *context);

/* Prints a line for each bucket that has caches: part of malloc_info. */
void buckets_print(FILE *stream);

/* Call before anything else here. */
void buckets_setup(void);

/* Call around a fork. */
void buckets_lock(void);
void buckets_unlock(bool in_child);

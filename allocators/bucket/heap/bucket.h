/* SPDX-License-Identifier: MIT */
/* A bucket: for each size class, the caches that serve requests of its threads.

   Classes are the powers of two from 16 bytes to the tunable max_cached. For each class a bucket has rows of caches,
   with the numbers of free blocks side by side, so that a search for a cache with a free block reads few cache lines.
   A search starts at the cache that served the last request.

   Not its job: which thread has which bucket (buckets.h). Only the thread that holds the bucket's lock, or that owns
   the bucket, may take; any thread may walk, because caches are only added. */
#pragma once

#include "allocators/bucket/heap/cache.h"

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

/* Calls visit for each cache, until it returns false; returns whether it never did. */
typedef bool bucket_visit(struct cache *cache, void *context);
bool bucket_each_cache(struct bucket *bucket, bucket_visit *visit, void *context);

/* In a forked child: completes what a thread that is gone may have left half done. */
void bucket_after_fork(struct bucket *bucket);

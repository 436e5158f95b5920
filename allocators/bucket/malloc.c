/* SPDX-License-Identifier: MIT */
/* malloc and calloc, from entry to return, in the order of a request's steps:

     malloc             up to max_cached bytes: from the thread's bucket, under its parent lock unless it is its own
     bucket_mine (heap/buckets.h)
                        the bucket that the thread's number gives; a thread's first request gets it a number
     class_of (heap/bucket.h)
                        the power of two that is large enough
     bucket_take (heap/bucket.c)
                        the cache that served last, if it has a free block;
       search             else the first cache of the class that has one;
       take_from_new      else a new cache, mapped
     cache_take (heap/cache.c)
                        a free bit is found and cleared, under the cache's lock or by an atomic operation; its block
                        gets its header
     oversize_take (heap/oversize.c)
                        more than max_cached bytes: the smallest free block that is large enough, or new memory; what
                        is left over is free again. All under one lock

   Freeing is in free.c. */
#include "allocators/bucket/heap/bucket.h"
#include "allocators/bucket/heap/buckets.h"
#include "allocators/bucket/heap/oversize.h"
#include "allocators/common/calls/arguments.h"

#include "allocators/bucket/base/locks.h"
#include "allocators/common/startup.h"

static void *malloc_oversize(size_t object_bytes, bool *clean);

static inline void *malloc_cached(size_t object_bytes) {
  struct bucket *bucket = bucket_mine();
  struct block *block = NULL;
  if (LIKELY(bucket != NULL)) {
    if (!bucket->own)
      LOCK_TAKE_AS(parent, &bucket->lock);
    block = bucket_take(bucket, class_of(object_bytes));
    if (!bucket->own)
      lock_drop(&bucket->lock);
  }
  if (UNLIKELY(!block)) {
    errno = ENOMEM;
    return NULL;
  }
  COUNT(cached_hits);
  return block_object(block);
}

void *allocator_malloc(size_t object_bytes) {
  bool clean;
  return LIKELY(object_bytes <= tunables.max_cached) ? malloc_cached(object_bytes)
                                                     : malloc_oversize(object_bytes, &clean);
}

/* *clean: whether the object is all zero. Before the start max_cached has its lowest value, so the first call may come
   here by mistake. */
static __attribute__((noinline)) void *malloc_oversize(size_t object_bytes, bool *clean) {
  *clean = false;
  startup();
  if (UNLIKELY(object_bytes <= tunables.max_cached))
    return malloc_cached(object_bytes);
  if (UNLIKELY(size_is_too_large(object_bytes)))
    return NULL;
  struct oversize *oversize = oversize_take(object_bytes);
  if (UNLIKELY(!oversize)) {
    errno = ENOMEM;
    return NULL;
  }
  COUNT(oversize_hits);
  *clean = oversize->tagged_bytes & OVERSIZE_CLEAN;
  return block_object(&oversize->block);
}

void *allocator_calloc(size_t count, size_t element_bytes) {
  size_t object_bytes;
  bool clean = false;
  if (UNLIKELY(!array_bytes(count, element_bytes, &object_bytes)))
    return NULL;
  void *object =
      LIKELY(object_bytes <= tunables.max_cached) ? malloc_cached(object_bytes) : malloc_oversize(object_bytes, &clean);
  return LIKELY(object != NULL) && !clean ? memset(object, 0, object_bytes) : object;
}

PUBLIC_NAME(void *, malloc, (size_t object_bytes), allocator_malloc);
PUBLIC_NAME(void *, calloc, (size_t count, size_t element_bytes), allocator_calloc);

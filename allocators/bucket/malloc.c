/* SPDX-License-Identifier: MIT */
#include "allocators/bucket/block.h"
#include "allocators/bucket/buckets.h"
#include "allocators/bucket/oversize.h"
#include "allocators/common/allocator.h"
#include "allocators/common/base.h"
#include "allocators/common/counters.h"
#include "allocators/common/entry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* malloc and calloc, from entry to return, in the order of a request's steps:

     malloc             up to max_cached bytes: from the thread's bucket, under its parent lock unless it is its own
     bucket_mine (buckets.h)
                        the bucket that the thread's number gives; a thread's first request gets it a number
     class_of (buckets.h)
                        the power of two that is large enough
     bucket_take (buckets.c)
                        the cache that served last, if it has a free block;
       search             else the first cache of the class that has one;
       take_from_new      else a new cache, mapped
     cache_take (buckets.c)
                        a free bit is found and cleared, under the cache's lock or by an atomic operation; its block
                        gets its header
     oversize_take (oversize.c)
                        more than max_cached bytes: the smallest free block that is large enough, or new memory; what
                        is left over is free again. All under one lock

   Freeing is below. */

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

/* Aligned objects: each is within a larger object from malloc, with its own header before it that points to the outer
   object, as in libmtmalloc. */

void *allocator_take_aligned(size_t alignment, size_t object_bytes) {
  size_t padded;
  if (__builtin_add_overflow(object_bytes, alignment, &padded))
    return NULL;
  void *outer = allocator_malloc(padded);
  if (!outer || ((uintptr_t)outer & (alignment - 1)) == 0)
    return outer;
  /* Both addresses are multiples of 16, so there is room for a header between them. */
  struct block *inner = block_of((void *)round_up((uintptr_t)outer, alignment));
  block_mark_used(inner, outer, BLOCK_ALIGNED);
  return block_object(inner);
}

/* free, from entry to return, in the order of an object's steps:

     free               the header shows where the object belongs; any inconsistency ends the process
     cache_release (buckets.c)
                        of a cache: its bit is set, under the cache's lock or by an atomic operation. No other lock: any
                        thread frees into any bucket
     free_slow          an aligned object: the object that contains it is freed
     oversize_release (oversize.c)
                        an oversize block: merged with its free neighbours and put into the tree, under the one lock */

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

/* realloc: in place if the block is large enough, or if it is oversize and becomes so with the free block behind it;
   else by copying. */

/* Returns the usable bytes of a block that was checked. */
static size_t usable_bytes(struct block *block) {
  switch (block_kind(block)) {
  case BLOCK_OVERSIZE:
    return oversize_object_bytes(block_owner(block));
  case BLOCK_ALIGNED: {
    char *outer = block_owner(block);
    return usable_bytes(block_checked("realloc", outer)) - (size_t)((char *)block_object(block) - outer);
  }
  default:
    return cache_object_bytes(block_owner(block));
  }
}

/* The part of an oversize object that is no longer needed is given back, if another oversize object could use it. */
static bool fits_in_place(struct block *block, size_t object_bytes) {
  if (block_kind(block) == BLOCK_OVERSIZE)
    return object_bytes > tunables.max_cached && oversize_resize(block_owner(block), object_bytes);
  return object_bytes <= usable_bytes(block);
}

void *allocator_realloc(void *object, size_t object_bytes) {
  void *result;
  if (realloc_is_special(object, object_bytes, &result))
    return result;
  struct block *block = block_checked("realloc", object);
  if (block_kind(block) == BLOCK_CACHED)
    cache_check("realloc", block_owner(block));
  return fits_in_place(block, object_bytes) ? object : realloc_by_copy(object, usable_bytes(block), object_bytes);
}

size_t allocator_malloc_usable_size(void *object) {
  return object ? usable_bytes(block_checked("malloc_usable_size", object)) : 0;
}

PUBLIC_NAME(void *, realloc, (void *object, size_t object_bytes), allocator_realloc);
PUBLIC_NAME(size_t, malloc_usable_size, (void *object), allocator_malloc_usable_size);

enum { MAX_CACHED_SHIFT_LOWEST = 16, SHIFT_MAX = 62 };

/* As in libmtmalloc: any value that begins with Y enables it. */
static void set_exclusive(const char *value) {
  if (!tunables_set.exclusive)
    tunables.exclusive = *value == 'Y' || *value == 'y';
}

/* An exponent of two. Exponents beyond a word count as the largest. */
static void set_max_cached(const char *value) {
  long shift = strtol(value, NULL, 10);
  if (!tunables_set.max_cached)
    tunables.max_cached = shift < 0 ? 1 : (size_t)1 << (shift > SHIFT_MAX ? SHIFT_MAX : shift);
}

static void set_by_old_name(const char *name, void (*set)(const char *value)) {
  const char *options = environment_value("MTMALLOC_OPTIONS"), *value = environment_value(name);
  size_t length = strlen(name);
  while (options && *options) {
    if (strncmp(options, name, length) == 0 && options[length] == '=')
      set(options + length + 1);
    options += strcspn(options, ",");
    options += *options == ',';
  }
  if (value)
    set(value);
}

static void clamp_max_cached(void) {
  static const char *const powers[] = {"65536", "131072", "262144", "524288", "1048576", "2097152"};
  unsigned shift = MAX_CACHED_SHIFT_LOWEST;
  size_t wanted = tunables.max_cached;
  while (shift < CLASS_MAX_SHIFT && (size_t)1 << shift < wanted)
    shift++;
  tunables.max_cached = (size_t)1 << shift;
  if (wanted == tunables.max_cached)
    return;
  const char *why = wanted > tunables.max_cached       ? "max_cached is set to its highest value"
                    : shift == MAX_CACHED_SHIFT_LOWEST ? "max_cached is set to its lowest value"
                                                       : "max_cached is not a power of two; the next one is used";
  complain(why, powers[shift - MAX_CACHED_SHIFT_LOWEST]);
}

/* MTEXCLUSIVE=Y and MTMAXCACHE=16..21 of the environment, and in MTMALLOC_OPTIONS=NAME=VALUE,NAME=VALUE, where
   BUCKET_TUNABLES does not set the same. Then makes max_cached a power of two for which there are classes, and reports
   on stderr if it was not one. Before anything else of the allocator. */
static void settings_setup(void) {
  set_by_old_name("MTEXCLUSIVE", set_exclusive);
  set_by_old_name("MTMAXCACHE", set_max_cached);
  clamp_max_cached();
}

/* Hooks with which the common code starts this allocator, and handles a fork. */

static void on_thread_end(void *unused) {
  (void)unused;
  buckets_detach();
  counters_end_thread();
}

void allocator_start(void) {
  uintptr_t words[2];
  secret_words(words);
  block_secret = words[0];
  settings_setup();
  buckets_setup();
  thread_end_setup(on_thread_end);
}

void allocator_before_fork(void) {
  buckets_lock();
  oversize_lock();
}

void allocator_after_fork(bool in_child) {
  oversize_unlock();
  buckets_unlock(in_child);
}

/* The rest of the malloc API (most of it: common/entry.c), and the heap walk. */

static bool purge_cache(struct cache *cache, void *any) {
  *(bool *)any |= cache_purge(cache);
  return true;
}

int allocator_malloc_trim(size_t keep_bytes) {
  (void)keep_bytes; /* at the end of the heap: there is no such end */
  startup();
  int error = errno;
  bool any = false;
  buckets_each_cache(purge_cache, &any);
  any |= oversize_purge();
  errno = error;
  return any;
}

/* There is nothing to set: no thresholds, no fast bins. */
int allocator_mallopt(int option, int value) {
  (void)option;
  (void)value;
  return 0;
}

void allocator_summarize(const struct heap_sums *sums, struct mallinfo2 *info) {
  info->arena = info->usmblks = system_bytes();
  info->uordblks = sums->bytes[STATE_USED];
  for (int state = STATE_CACHED; state < STATES; state++) {
    info->ordblks += sums->count[state];
    info->fordblks += sums->bytes[state];
  }
}

void allocator_print_parts(FILE *stream) {
  buckets_print(stream);
}

struct visitor {
  cache_visit *visit;
  void *context;
};

static bool walk_cache(struct cache *cache, void *context) {
  const struct visitor *visitor = context;
  cache_walk(cache, visitor->visit, visitor->context);
  return true;
}

void heaptape_heap_walk(cache_visit *visit, void *context) {
  struct visitor visitor = {visit, context};
  startup();
  buckets_each_cache(walk_cache, &visitor);
  oversize_walk(visit, context);
}

const char *heaptape_heap_walk_state(unsigned state) {
  static const char *const names[] = {"used", "cached", "unused", "oversize"};
  _Static_assert(sizeof names / sizeof *names == STATES, "a name for each");
  return state < STATES ? names[state] : NULL;
}

PUBLIC_NAME(int, malloc_trim, (size_t keep_bytes), allocator_malloc_trim);
PUBLIC_NAME(int, mallopt, (int option, int value), allocator_mallopt);

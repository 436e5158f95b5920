/* SPDX-License-Identifier: MIT */
#include "allocators/bucket/heap/bucket.h"

#include "allocators/bucket/base/locks.h"
#include "allocators/bucket/base/system.h"

static uint32_t places_of(const struct shelf *shelf, const struct row *row) {
  return row == shelf->last ? shelf->last_used : ROW_CACHES;
}

static bool has_free(const struct row *row, uint32_t place) {
  return atomic_load_explicit(&row->counts[place], memory_order_relaxed) != 0;
}

/* Takes a free block from the cache at that place, which has some; the next request tries it first. NULL: a purge has
   them. */
static struct block *take_at(struct shelf *shelf, struct row *row, uint32_t place) {
  shelf->hint_row = row;
  shelf->hint = place;
  return cache_take(atomic_load_explicit(&row->caches[place], memory_order_relaxed));
}

/* Takes from the first cache of the shelf that has a free block, beginning with the row that served last. */
static struct block *search(struct shelf *shelf) {
  struct row *first = atomic_load_explicit(&shelf->first, memory_order_relaxed), *start = shelf->hint_row;
  struct row *row = start;
  COUNT(searches);
  do {
    for (uint32_t place = 0; place < places_of(shelf, row); place++) {
      struct block *block = has_free(row, place) ? take_at(shelf, row, place) : NULL;
      if (block)
        return block;
    }
    row = row == shelf->last ? first : atomic_load_explicit(&row->next, memory_order_relaxed);
  } while (row != start);
  return NULL;
}

/* Makes room for one more cache. */
static bool add_row(struct shelf *shelf) {
  struct row *row = system_own(sizeof *row);
  if (!row)
    return false;
  struct row *_Atomic *place = shelf->last ? &shelf->last->next : &shelf->first;
  atomic_store_explicit(place, row, memory_order_release);
  shelf->last = row;
  shelf->last_used = 0;
  return true;
}

static struct block *take_from_new(struct shelf *shelf, unsigned size_class) {
  if ((!shelf->last || shelf->last_used == ROW_CACHES) && !add_row(shelf))
    return NULL;
  struct row *row = shelf->last;
  uint32_t place = shelf->last_used;
  struct cache *cache = cache_make(class_bytes(size_class) + sizeof(struct block), &row->counts[place]);
  if (!cache)
    return NULL;
  COUNT(caches_made);
  atomic_store_explicit(&row->caches[place], cache, memory_order_release);
  shelf->last_used++;
  return take_at(shelf, row, place);
}

struct block *bucket_take(struct bucket *bucket, unsigned size_class) {
  struct shelf *shelf = &bucket->shelves[size_class];
  struct block *block = NULL;
  if (LIKELY(shelf->hint_row != NULL)) {
    if (LIKELY(has_free(shelf->hint_row, shelf->hint)))
      block = take_at(shelf, shelf->hint_row, shelf->hint);
    if (UNLIKELY(!block))
      block = search(shelf);
  }
  return LIKELY(block != NULL) ? block : take_from_new(shelf, size_class);
}

bool bucket_each_cache(struct bucket *bucket, bucket_visit *visit, void *context) {
  for (unsigned size_class = 0; size_class < CLASSES; size_class++) {
    struct row *row = atomic_load_explicit(&bucket->shelves[size_class].first, memory_order_acquire);
    for (; row; row = atomic_load_explicit(&row->next, memory_order_acquire))
      for (uint32_t place = 0; place < ROW_CACHES; place++) {
        struct cache *cache = atomic_load_explicit(&row->caches[place], memory_order_acquire);
        if (cache && !visit(cache, context))
          return false;
      }
  }
  return true;
}

static void shelf_after_fork(struct shelf *shelf) {
  struct row *first = atomic_load_explicit(&shelf->first, memory_order_relaxed), *row = first, *next;
  if (!row)
    return;
  while ((next = atomic_load_explicit(&row->next, memory_order_relaxed)) != NULL)
    row = next;
  shelf->last = row;
  shelf->last_used = 0;
  while (shelf->last_used < ROW_CACHES &&
         atomic_load_explicit(&row->caches[shelf->last_used], memory_order_relaxed) != NULL)
    shelf->last_used++;
  shelf->hint_row = first;
  shelf->hint = 0;
  if (shelf->last_used < ROW_CACHES) /* of a cache that was being made, and is lost */
    atomic_store_explicit(&row->counts[shelf->last_used], 0, memory_order_relaxed);
}

static bool cache_is_whole_after_fork(struct cache *cache, void *unused) {
  (void)unused;
  cache_after_fork(cache);
  return true;
}

void bucket_after_fork(struct bucket *bucket) {
  lock_reset(&bucket->lock);
  for (unsigned size_class = 0; size_class < CLASSES; size_class++)
    shelf_after_fork(&bucket->shelves[size_class]);
  bucket_each_cache(bucket, cache_is_whole_after_fork, NULL);
}

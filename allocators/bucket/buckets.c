/* SPDX-License-Identifier: MIT */
#include "allocators/bucket/buckets.h"

#include "allocators/bucket/block.h"
#include "allocators/common/entry.h"

enum {
  SPAN_BYTES = 512 << 10, /* libmtmalloc's on 64-bit machines: 64 pieces of 8 KiB */
  BLOCKS_ALIGNMENT = 64,
};

/* Whether the bits are changed by atomic operations: else under the cache's lock, or by the only thread. */
static inline bool is_atomic(void) {
  return tunables.cache_lock == CACHE_LOCK_ATOMIC && threads_may_run();
}

static inline void lock_cache(struct cache *cache) {
  if (tunables.cache_lock == CACHE_LOCK_MUTEX)
    LOCK_TAKE_AS(cache, &cache->lock);
}

static inline void unlock_cache(struct cache *cache) {
  if (tunables.cache_lock == CACHE_LOCK_MUTEX)
    lock_drop(&cache->lock);
}

static size_t head_bytes(size_t words) {
  return round_up(sizeof(struct cache) + words * sizeof(uint64_t), BLOCKS_ALIGNMENT);
}

static size_t words_for(size_t blocks) {
  return (blocks + CACHE_WORD_BITS - 1) / CACHE_WORD_BITS;
}

/* Returns the usual span, or room for one block if that is larger. */
static size_t span_for(size_t block_bytes) {
  size_t least = round_up(head_bytes(1) + block_bytes, os_page_bytes);
  return least > SPAN_BYTES ? least : SPAN_BYTES;
}

/* Returns the bits of a word that are for blocks before that one. */
static uint64_t bits_before(uint32_t index, uint32_t word) {
  uint32_t first = word * CACHE_WORD_BITS;
  return index - first >= CACHE_WORD_BITS ? UINT64_MAX : (UINT64_C(1) << (index - first)) - 1;
}

/* Maps a cache for blocks of block_bytes, headers included; all are free. count: where its free blocks will be counted.
   NULL: no memory. */
static struct cache *cache_make(size_t block_bytes, _Atomic uint32_t *count) {
  size_t span_bytes = span_for(block_bytes);
  struct cache *cache = system_map(span_bytes);
  if (!cache)
    return NULL;
  size_t words = words_for(span_bytes / block_bytes);
  cache->block_bytes = (uint32_t)block_bytes;
  cache->block_count = (uint32_t)((span_bytes - head_bytes(words)) / block_bytes);
  cache->words = (uint32_t)words;
  cache->blocks_offset = (uint32_t)head_bytes(words);
  cache->count = count;
  cache->seal = cache_seal(cache);
  for (uint32_t index = 0; index < cache->block_count; index += CACHE_WORD_BITS) {
    uint32_t word = index / CACHE_WORD_BITS;
    atomic_store_explicit(&cache->free_bits[word], bits_before(cache->block_count, word), memory_order_relaxed);
  }
  atomic_store_explicit(count, cache->block_count, memory_order_release);
  return cache;
}

static struct block *block_at(struct cache *cache, uint32_t index) {
  return (struct block *)((char *)cache + cache->blocks_offset + (size_t)index * cache->block_bytes);
}

static uint32_t index_of(const struct cache *cache, const struct block *block) {
  return ((uint32_t)((uintptr_t)block - (uintptr_t)cache) - cache->blocks_offset) / cache->block_bytes;
}

static inline void count_free(struct cache *cache, uint32_t change) {
  if (is_atomic()) {
    COUNT(atomics);
    atomic_fetch_add_explicit(cache->count, change, memory_order_relaxed);
  } else {
    uint32_t count = atomic_load_explicit(cache->count, memory_order_relaxed);
    atomic_store_explicit(cache->count, count + change, memory_order_relaxed);
  }
}

/* Clears these bits; returns those that were set. Acquires what was written before they were set. */
static inline uint64_t clear_bits(_Atomic uint64_t *word, uint64_t bits) {
  if (is_atomic()) {
    COUNT(atomics);
    return atomic_fetch_and_explicit(word, ~bits, memory_order_acquire) & bits;
  }
  uint64_t before = atomic_load_explicit(word, memory_order_relaxed);
  atomic_store_explicit(word, before & ~bits, memory_order_relaxed);
  return before & bits;
}

/* Sets these bits; returns those that were set already. Releases what was written before. */
static inline uint64_t set_bits(_Atomic uint64_t *word, uint64_t bits) {
  if (is_atomic()) {
    COUNT(atomics);
    return atomic_fetch_or_explicit(word, bits, memory_order_release) & bits;
  }
  uint64_t before = atomic_load_explicit(word, memory_order_relaxed);
  atomic_store_explicit(word, before | bits, memory_order_relaxed);
  return before & bits;
}

/* Clears one set bit, the lowest of a word, beginning with the word of the last one; returns its number, or
   block_count. A purge may hold bits for a while, so that none is found although the count is not 0. */
static uint32_t take_bit(struct cache *cache) {
  uint32_t word = cache->hint;
  for (uint32_t tried = 0; tried < cache->words; tried++) {
    uint64_t bits;
    while ((bits = atomic_load_explicit(&cache->free_bits[word], memory_order_relaxed)) != 0) {
      uint64_t lowest = bits & -bits;
      if (clear_bits(&cache->free_bits[word], lowest) == 0)
        continue;
      cache->hint = word;
      return word * CACHE_WORD_BITS + (uint32_t)__builtin_ctzll(lowest);
    }
    word = word + 1 < cache->words ? word + 1 : 0;
  }
  return cache->block_count;
}

struct block *cache_take(struct cache *cache) {
  lock_cache(cache);
  uint32_t index = take_bit(cache);
  if (LIKELY(index < cache->block_count))
    count_free(cache, -1u);
  unlock_cache(cache);
  if (UNLIKELY(index >= cache->block_count))
    return NULL;
  struct block *block = block_at(cache, index);
  if (index >= atomic_load_explicit(&cache->unused, memory_order_relaxed))
    atomic_store_explicit(&cache->unused, index + 1, memory_order_relaxed);
  else if (UNLIKELY(!block_is_free(block) && block->seal != 0))
    fault("malloc", "overwritten header of a free block", block_object(block));
  block_mark_used(block, cache, BLOCK_CACHED);
  return block;
}

void cache_release(struct cache *cache, struct block *block) {
  uint32_t index = index_of(cache, block);
  uint64_t bit = UINT64_C(1) << index % CACHE_WORD_BITS;
  block_mark_free(block);
  lock_cache(cache);
  uint64_t already = set_bits(&cache->free_bits[index / CACHE_WORD_BITS], bit);
  if (UNLIKELY(already != 0))
    fault("free", "double free, by two threads at a time", block_object(block));
  count_free(cache, 1);
  unlock_cache(cache);
}

/* Gives back the OS pages of the free blocks in [first, end). Their headers are lost: a header of zeros is that of a
   block that was never handed out. */
static bool purge_run(struct cache *cache, uint32_t first, uint32_t end) {
  uintptr_t start = round_up((uintptr_t)block_at(cache, first), os_page_bytes);
  uintptr_t stop = (uintptr_t)block_at(cache, end) & ~(os_page_bytes - 1);
  return start < stop && system_purge((void *)start, stop - start);
}

/* Purges the blocks of one word before `unused`, which no other thread can take meanwhile. */
static bool purge_word(struct cache *cache, uint32_t word, uint32_t unused) {
  bool any = false;
  uint32_t first = word * CACHE_WORD_BITS;
  uint64_t taken = clear_bits(&cache->free_bits[word], bits_before(unused, word));
  for (uint64_t left = taken; left != 0;) {
    uint32_t start = (uint32_t)__builtin_ctzll(left);
    uint64_t beyond = ~(left >> start); /* its lowest set bit is the end of the run */
    uint32_t end = beyond ? start + (uint32_t)__builtin_ctzll(beyond) : CACHE_WORD_BITS;
    any |= purge_run(cache, first + start, first + end);
    left &= end < CACHE_WORD_BITS ? UINT64_MAX << end : 0;
  }
  set_bits(&cache->free_bits[word], taken);
  return any;
}

bool cache_purge(struct cache *cache) {
  bool any = false;
  lock_cache(cache);
  uint32_t unused = atomic_load_explicit(&cache->unused, memory_order_relaxed);
  for (uint32_t word = 0; word < words_for(unused); word++)
    any |= purge_word(cache, word, unused);
  unlock_cache(cache);
  return any;
}

void cache_walk(struct cache *cache, cache_visit *visit, void *context) {
  lock_cache(cache);
  uint32_t unused = atomic_load_explicit(&cache->unused, memory_order_relaxed);
  for (uint32_t index = 0; index < unused; index++) {
    uint64_t bits = atomic_load_explicit(&cache->free_bits[index / CACHE_WORD_BITS], memory_order_relaxed);
    unsigned state = bits >> index % CACHE_WORD_BITS & 1 ? STATE_CACHED : STATE_USED;
    visit(block_at(cache, index), cache->block_bytes, state, context);
  }
  if (unused < cache->block_count)
    visit(block_at(cache, unused), (size_t)(cache->block_count - unused) * cache->block_bytes, STATE_UNUSED, context);
  unlock_cache(cache);
}

/* In a forked child, where no other thread uses the cache: counts the free blocks again, as a thread may have been
   about to. Writes only differing words: an OS page that is not written stays shared with the parent. */
static void cache_after_fork(struct cache *cache) {
  uint32_t count = 0;
  if (atomic_load_explicit(&cache->lock.state, memory_order_relaxed) != LOCK_FREE)
    lock_reset(&cache->lock);
  for (uint32_t word = 0; word < cache->words; word++)
    count += (uint32_t)__builtin_popcountll(atomic_load_explicit(&cache->free_bits[word], memory_order_relaxed));
  if (count != atomic_load_explicit(cache->count, memory_order_relaxed))
    atomic_store_explicit(cache->count, count, memory_order_relaxed);
}

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

/* Calls visit for each cache, until it returns false; returns whether it never did. */
static bool bucket_each_cache(struct bucket *bucket, bucket_visit *visit, void *context) {
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

/* In a forked child: completes what a thread that is gone may have left half done. */
static void bucket_after_fork(struct bucket *bucket) {
  lock_reset(&bucket->lock);
  for (unsigned size_class = 0; size_class < CLASSES; size_class++)
    shelf_after_fork(&bucket->shelves[size_class]);
  bucket_each_cache(bucket, cache_is_whole_after_fork, NULL);
}

__thread struct thread thread = {.number = NO_NUMBER};

static struct bucket *shared, *owned;
static unsigned shared_count, owned_count;
static bool fork_among_threads;

static unsigned standard_count(void) {
  unsigned count = 1;
  while (count < 2 * processors())
    count *= 2;
  return count;
}

void buckets_setup(void) {
  shared_count = tunables.buckets ? (unsigned)tunables.buckets : standard_count();
  owned_count = tunables.exclusive ? shared_count : 0;
  shared = system_own((shared_count + owned_count) * sizeof *shared);
  if (!shared)
    return;
  owned = shared + shared_count;
  for (unsigned index = 0; index < owned_count; index++)
    owned[index].own = true;
}

struct bucket *buckets_attach(void) {
  startup();
  if (UNLIKELY(!shared))
    return NULL;
  int number = number_take();
  thread.number = number;
  thread.bucket = (unsigned)number < owned_count ? &owned[number] : &shared[(unsigned)number % shared_count];
  buckets_watch_end();
  return thread.bucket;
}

void buckets_watch_end(void) {
  if (thread.watched)
    return;
  thread.watched = true;
  thread_end_watch();
}

void buckets_detach(void) {
  int number = thread.number;
  thread.bucket = shared;
  thread.number = NO_NUMBER;
  number_give_back(number);
}

void buckets_each_cache(bucket_visit *visit, void *context) {
  if (!shared)
    return;
  for (unsigned index = 0; index < shared_count + owned_count; index++) {
    struct bucket *bucket = &shared[index];
    if (!bucket->own)
      LOCK_TAKE_AS(parent, &bucket->lock);
    bool all = bucket_each_cache(bucket, visit, context);
    if (!bucket->own)
      lock_drop(&bucket->lock);
    if (!all)
      return;
  }
}

static bool count_cache(struct cache *cache, void *count) {
  (void)cache;
  ++*(unsigned *)count;
  return true;
}

void buckets_print(FILE *stream) {
  for (unsigned index = 0; shared && index < shared_count + owned_count; index++) {
    unsigned caches = 0;
    bucket_each_cache(&shared[index], count_cache, &caches);
    if (caches)
      fprintf(stream, "<bucket nr=\"%u\" own=\"%d\" caches=\"%u\"/>\n", index, shared[index].own, caches);
  }
}

void buckets_lock(void) {
  fork_among_threads = threads_may_run();
  lock_take(&numbers_lock);
  for (unsigned index = 0; index < shared_count; index++)
    lock_take(&shared[index].lock);
  lock_take(&memory_lock);
}

void buckets_unlock(bool in_child) {
  lock_drop(&memory_lock);
  for (unsigned index = 0; in_child && fork_among_threads && index < shared_count + owned_count; index++)
    bucket_after_fork(&shared[index]);
  for (unsigned index = 0; index < shared_count; index++)
    lock_drop(&shared[index].lock);
  if (in_child)
    numbers_keep(thread.number);
  lock_drop(&numbers_lock);
}

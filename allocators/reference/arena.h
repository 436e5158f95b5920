/* SPDX-License-Identifier: MIT */
/* An arena: its bins and fast bins, and the data of each thread that takes chunks from it.

   Not its job: where its memory is from (heap.h), taking chunks and giving them back (take.h), which arena a thread
   uses (take.h), when a thread's cache is made, filled and emptied (tcache.h). Changing an arena requires its lock,
   except a push into a fast bin; a chunk returns to its own arena. */
#pragma once

#include "allocators/common/base.h"
#include "allocators/common/counters.h"
#include "allocators/reference/chunk.h"
#include "core/base/assert.h"

/* Bins: an arena's lists of free, coalesced chunks by size.

   Small bins hold one size each, oldest last. A large bin covers an eighth of a power of two, sorted by size; the first
   chunk of each size is in a ring of sizes, so that the search for the best fit visits distinct sizes, not chunks.
   (ptmalloc's bins get coarser with size; eight per doubling keep the rings short at 1.6 KB more per arena.) The
   remainder bin has at most one chunk: what the last small request left of the chunk from which it was cut. A bit per
   bin is set while it has chunks.

   Everything here needs the arena's lock. */

enum {
  SMALL_LIMIT_BYTES = 1024, /* chunks below are in small bins */
  REMAINDER_BIN = 0,        /* no chunk is so small that it belongs there by size */
  SMALL_BINS = SMALL_LIMIT_BYTES / CHUNK_ALIGNMENT,
  SIZES_PER_DOUBLING = 8,
  DOUBLINGS = 17, /* 1 KiB to 128 MiB; the last bin has no upper end */
  BINS = SMALL_BINS + SIZES_PER_DOUBLING * DOUBLINGS,
  MAP_WORDS = (BINS + 63) / 64,
};

struct bins {
  uint64_t map[MAP_WORDS];
  struct links lists[BINS];
};

/* Returns the number of the bin for chunks of `bytes`. */
static inline unsigned bin_number(size_t bytes) {
  if (bytes < SMALL_LIMIT_BYTES)
    return (unsigned)(bytes / CHUNK_ALIGNMENT);
  unsigned doubling = 63 - (unsigned)__builtin_clzll(bytes);
  size_t eighths = bytes >> (doubling - 3); /* of the power of two, 8 to 15: one doubling too many, hence 11 below, not
                                               10 */
  size_t number = SMALL_BINS + (doubling - 11) * SIZES_PER_DOUBLING + eighths;
  return number < BINS ? (unsigned)number : BINS - 1;
}

static inline bool list_is_empty(const struct links *list) {
  return list->next == list;
}

static inline void list_insert_after(struct links *place, struct links *links) {
  links->next = place->next;
  links->prev = place;
  place->next->prev = links;
  place->next = links;
}

/* Empties all bins: for a new arena. */
void bins_setup(struct bins *bins);

/* Parts of the functions below, for large bins that contain other chunks. */
void bins_leave_sizes(struct bins *bins, struct chunk *chunk);
void bins_add_large(struct links *list, struct chunk *chunk, size_t bytes);

/* Part of bins_unlink, for the only chunk of its list. */
static inline void bins_leave_empty(struct bins *bins, struct chunk *chunk, size_t bytes) {
  size_t number = (size_t)(chunk->links.next - bins->lists);
  if (UNLIKELY(number >= BINS))
    fault("malloc", "corrupt links of a free chunk", chunk);
  if (bytes >= SMALL_LIMIT_BYTES && UNLIKELY(chunk->next_size != chunk || chunk->prev_size != chunk))
    fault("malloc", "corrupt ring of sizes in a large bin", chunk);
  bins->map[number / 64] &= ~((uint64_t)1 << number % 64);
}

/* Takes a free chunk out of the list it is in, after checking that its neighbours in list and heap agree. */
static inline void bins_unlink(struct bins *bins, struct chunk *chunk) {
  size_t bytes = chunk_bytes(chunk);
  if (UNLIKELY(bytes != chunk_next(chunk)->prev_bytes))
    fault("malloc", "size of a free chunk and the copy behind it differ", chunk);
  struct links *next = chunk->links.next, *prev = chunk->links.prev;
  if (UNLIKELY(next->prev != &chunk->links || prev->next != &chunk->links))
    fault("malloc", "corrupt links of a free chunk", chunk);
  if (next == prev)
    bins_leave_empty(bins, chunk, bytes);
  else if (bytes >= SMALL_LIMIT_BYTES && chunk->next_size)
    bins_leave_sizes(bins, chunk);
  next->prev = prev;
  prev->next = next;
}

/* Adds a chunk to the bin of its size. The chunk has that size and is marked free (chunk_set_free). */
static inline void bins_add(struct bins *bins, struct chunk *chunk, size_t bytes) {
  HT_ASSERT(bytes == chunk_bytes(chunk) && bytes >= CHUNK_MIN_BYTES && !chunk_prev_used(chunk_next(chunk)));
  unsigned number = bin_number(bytes);
  struct links *list = &bins->lists[number];
  bins->map[number / 64] |= (uint64_t)1 << number % 64;
  if (UNLIKELY(list->next->prev != list))
    fault("malloc", "corrupt bin", chunk);
  if (bytes >= SMALL_LIMIT_BYTES) {
    if (!list_is_empty(list)) {
      bins_add_large(list, chunk, bytes);
      return;
    }
    chunk->next_size = chunk->prev_size = chunk;
  }
  list_insert_after(list, &chunk->links);
}

/* Returns the chunk of the remainder bin, or NULL. */
static inline struct chunk *bins_remainder(struct bins *bins) {
  struct links *list = &bins->lists[REMAINDER_BIN];
  return list_is_empty(list) ? NULL : chunk_of_links(list->next);
}

/* Adds a chunk to the remainder bin, which must be empty. The chunk is marked free. */
static inline void bins_set_remainder(struct bins *bins, struct chunk *chunk) {
  HT_ASSERT(!bins_remainder(bins));
  if (chunk_bytes(chunk) >= SMALL_LIMIT_BYTES) /* smaller chunks may lack these words */
    chunk->next_size = chunk->prev_size = chunk;
  list_insert_after(&bins->lists[REMAINDER_BIN], &chunk->links);
}

/* Returns the best fit of a large bin that is not empty, still in the bin; NULL: all its chunks are smaller. */
struct chunk *bins_best_fit(struct links *list, size_t bytes);

/* Returns the first bin from `number` on that has chunks; BINS: none. */
static inline unsigned bins_first_used(const struct bins *bins, unsigned number) {
  _Static_assert(BINS < MAP_WORDS * 64, "the bin behind the last one is in the map, and is empty");
  unsigned word = number / 64;
  uint64_t bits = bins->map[word] >> number % 64 << number % 64;
  while (bits == 0) {
    if (++word == MAP_WORDS)
      return BINS;
    bits = bins->map[word];
  }
  return word * 64 + (unsigned)__builtin_ctzll(bits);
}

/* Returns the smallest chunk of at least `bytes`, unlinked, or NULL. Searches neither the remainder nor, for a small
   request, the bin of its size. */
static inline struct chunk *bins_take(struct bins *bins, size_t bytes) {
  unsigned number = bin_number(bytes);
  struct links *list = &bins->lists[number];
  struct chunk *chunk = bytes >= SMALL_LIMIT_BYTES && !list_is_empty(list) ? bins_best_fit(list, bytes) : NULL;
  if (!chunk) {
    number = bins_first_used(bins, number + 1);
    if (number == BINS)
      return NULL;
    /* A small bin's oldest chunk, which is most likely to have been coalesced already; a large bin's smallest. */
    list = &bins->lists[number];
    chunk = chunk_of_links(number < SMALL_BINS ? list->prev : list->next);
  }
  bins_unlink(bins, chunk);
  return chunk;
}

/* An arena: heaps, the lists of free chunks in them, and a lock. Threads share arenas; a chunk returns to its own
   arena.

   The main arena grows by the break. Each other arena has heaps of HEAP_BYTES at multiples of HEAP_BYTES, so that a
   mask finds a chunk's heap, and through it the arena. Arenas live forever: they are few, and are reused. */

enum { HEAP_BYTES = 64 << 20 };

/* The header of each heap: of 64 MiB, or of memory that the main arena got from the break or from mmap. */
struct heap {
  struct arena *arena;
  struct heap *prev;     /* the heap that was full before this one */
  size_t bytes;          /* readable and writable, from here on */
  size_t reserved_bytes; /* address space; 0: of the main arena */
};

struct arena {
  _Alignas(64) struct lock lock;
  bool by_break; /* the newest heap of the main arena ends at the break */
  /* Lock-free: pushed to by any thread, popped from under the lock only, so that no link can be reused meanwhile. */
  _Atomic bool have_fast;
  struct cached *_Atomic fast[FAST_BINS];
  struct chunk *top; /* the end of the newest heap, in no list; NULL: no heap yet */
  uintptr_t fresh;   /* from here to the end of the newest heap, nothing has been written: all zero */
  struct heap *heap;
  size_t chunk_flag;           /* CHUNK_OTHER_ARENA or 0, in the heads of its chunks */
  _Atomic size_t system_bytes; /* changed under the lock */
  size_t system_bytes_max;
  unsigned number;
  _Atomic unsigned threads; /* attached */
  struct arena *_Atomic next;
  struct bins bins;
};

extern struct arena main_arena HIDDEN;

static inline size_t arena_system_bytes(const struct arena *arena) {
  return atomic_load_explicit(&arena->system_bytes, memory_order_relaxed);
}

static inline void arena_unlock(struct arena *arena) {
  lock_drop(&arena->lock);
}

/* Returns the next arena, in an order that never changes; the first is main_arena. */
static inline struct arena *arena_next(struct arena *arena) {
  return atomic_load_explicit(&arena->next, memory_order_acquire);
}

/* Returns the arena of a chunk that is not mapped. Ends the process if the heap has no arena. */
static inline struct arena *arena_of(struct chunk *chunk, size_t head);
struct arena *arena_of_heap(struct chunk *chunk);

static inline struct arena *arena_of(struct chunk *chunk, size_t head) {
  return LIKELY(!(head & CHUNK_OTHER_ARENA)) ? &main_arena : arena_of_heap(chunk);
}

/* Fast bins: per arena and size, a list of small objects that were freed and not coalesced. Any thread pushes without
   the lock; only its holder pops, so a popped object can't return meanwhile and be mistaken (no ABA).

   Tunable fastchunks: how a push marks that there is something to consolidate. relaxed: an atomic store, not a
   read-modify-write, which many threads may repeat; atomic: an exchange, the obvious first version. */

static inline unsigned fast_number(size_t bytes) {
  return (unsigned)((bytes - CHUNK_MIN_BYTES) / CHUNK_ALIGNMENT);
}

/* Pushes the linked list from first to last, all chunks of that size and of this arena. */
static inline void fast_push(struct arena *arena, size_t bytes, struct cached *first, struct cached *last) {
  struct cached *_Atomic *list = &arena->fast[fast_number(bytes)];
  struct cached *old = atomic_load_explicit(list, memory_order_relaxed);
  if (UNLIKELY(old == first))
    fault("free", "double free: the object is in a fast bin", first);
  if (!threads_may_run()) {
    last->next = cached_hide(last, old);
    atomic_store_explicit(list, first, memory_order_relaxed);
    atomic_store_explicit(&arena->have_fast, true, memory_order_relaxed);
    return;
  }
  do {
    last->next = cached_hide(last, old);
    COUNT(atomics);
  } while (!atomic_compare_exchange_weak_explicit(list, &old, first, memory_order_release, memory_order_relaxed));
  if (UNLIKELY(tunables.fastchunks)) {
    COUNT(atomics);
    atomic_exchange_explicit(&arena->have_fast, true, memory_order_relaxed);
  } else if (!atomic_load_explicit(&arena->have_fast, memory_order_relaxed)) {
    atomic_store_explicit(&arena->have_fast, true, memory_order_relaxed);
  }
}

/* Pops up to count objects as a list; *got: their number. NULL: empty. Needs the lock. */
static inline struct cached *fast_pop(struct arena *arena, size_t bytes, unsigned count, unsigned *got) {
  struct cached *_Atomic *list = &arena->fast[fast_number(bytes)];
  struct cached *first = atomic_load_explicit(list, memory_order_acquire), *rest;
  do {
    rest = first;
    for (*got = 0; rest && *got < count; ++*got) {
      if (UNLIKELY(!is_aligned(rest) || chunk_bytes(chunk_of(rest)) != bytes))
        fault("malloc", "corrupt link or size in a fast bin", rest);
      rest = cached_next(rest);
    }
    if (!first)
      return NULL;
    if (!threads_may_run()) {
      atomic_store_explicit(list, rest, memory_order_relaxed);
      return first;
    }
    COUNT(atomics);
  } while (!atomic_compare_exchange_strong_explicit(list, &first, rest, memory_order_acquire, memory_order_acquire));
  return first;
}

/* Takes the whole list. Needs the lock. */
static inline struct cached *fast_take_all(struct arena *arena, unsigned number) {
  struct cached *_Atomic *list = &arena->fast[number];
  struct cached *first = atomic_load_explicit(list, memory_order_relaxed);
  if (!first)
    return NULL;
  if (!threads_may_run()) {
    atomic_store_explicit(list, NULL, memory_order_relaxed);
    return first;
  }
  COUNT(atomics);
  return atomic_exchange_explicit(list, NULL, memory_order_acquire);
}

/* What each thread has: its arena and its cache, a list of objects per size; and how objects get into such a list. */

struct arena;

struct tcache_bin {
  struct cached *first;
  uint32_t room;   /* objects that may be added */
  uint32_t refill; /* objects that the next miss may split off ahead: doubles with a miss, so that a size that is
                      requested once costs no memory, and is halved when the bin is full */
};

/* Bins of chunks of many sizes: one for each doubling from 1 KiB on, up to tcache_large. */
enum { TCACHE_LARGE_BINS = 13, TCACHE_LARGE_FIRST_BITS = 10 };

struct tcache {
  size_t inline_limit_bytes; /* the inlined path of malloc takes requests below this */
  size_t inline_chunk_bytes; /* the inlined path of free takes chunks whose size minus the smallest is below this */
  size_t bin_count;
  struct tcache_bin large[TCACHE_LARGE_BINS];
  struct tcache_bin bins[];
};

/* The data of the calling thread. */
struct thread {
  struct tcache *cache;
  struct arena *arena;
  unsigned contended; /* consecutive lock acquisitions that had to wait */
  bool ended;         /* the thread's destructors are running: no more cache */
};

extern __thread struct thread thread __attribute__((tls_model("initial-exec"))) HIDDEN;
extern struct tcache no_cache HIDDEN;

/* Keys of the objects in any tcache and any fast bin: random, so that a program's data does not contain them by chance.
   Odd, so that they are never a pointer. */
extern uintptr_t tcache_key HIDDEN, fast_key HIDDEN;

/* Takes the object that was put in last, or NULL. */
static inline struct cached *tcache_pop(struct tcache_bin *bin) {
  struct cached *object = bin->first;
  if (LIKELY(object != NULL)) {
    struct cached *next = cached_next(object);
    if (UNLIKELY(!is_aligned(next)))
      fault("malloc", "corrupt link in a tcache", object);
    bin->first = next;
    bin->room++;
    object->key = 0;
  }
  return object;
}

/* Puts an object in. There must be room. */
static inline void tcache_push(struct tcache_bin *bin, struct cached *object) {
  HT_ASSERT(bin->room > 0);
  cached_set_key(object, tcache_key);
  object->next = cached_hide(object, bin->first);
  bin->first = object;
  bin->room--;
}

/* Returns how many objects to put into a bin at once besides the one that a miss hands out: up to half the bin's size,
   as frees should find room, too. More would cost locality, as objects that are requested one after another are then
   apart. This was only counted: earlier, noisy comparisons of cycles at 7 instead of 3 had a replay of CPython's json
   15 % slower, of perl's hashes 20 %, and were not repeated. */
static inline uint32_t tcache_refill_count(const struct tcache_bin *bin) {
  uint32_t half = (uint32_t)tunables.tcache_count / 2;
  return bin->room < half ? bin->room : half;
}

/* Call before anything else here. */
void thread_setup(void);

/* SPDX-License-Identifier: MIT */
/* Bins: an arena's lists of free, coalesced chunks by size.

   Small bins hold one size each, oldest last. A large bin covers an eighth of a power of two, sorted by size, and the
   first chunk of each size is in a ring of sizes, so that the best fit is found over distinct sizes, not over chunks.
   (ptmalloc's bins get coarser with size; eight per doubling keep the rings short at 1.6 KB more per arena.) The
   unsorted bin takes in what was just freed or split off; malloc sorts it. A bit per bin is set where it may be
   non-empty.

   Everything here needs the arena's lock. */
#ifndef ALLOCATORS_REFERENCE_ARENA_BINS_H
#define ALLOCATORS_REFERENCE_ARENA_BINS_H

#include "allocators/common/fault.h"
#include "allocators/reference/base/chunk.h"
#include "core/base/assert.h"

enum {
  SMALL_LIMIT_BYTES = 1024, /* chunks below are in small bins */
  SMALL_BINS = SMALL_LIMIT_BYTES / CHUNK_ALIGNMENT,
  SIZES_PER_DOUBLING = 8,
  DOUBLINGS = 17, /* 1 KiB to 128 MiB; the last bin has no upper end */
  BINS = SMALL_BINS + SIZES_PER_DOUBLING * DOUBLINGS,
  MAP_WORDS = (BINS + 63) / 64,
};

struct bins {
  struct links unsorted;
  uint64_t map[MAP_WORDS];
  struct links lists[BINS];
};

/* Number of the bin for chunks of that many bytes. */
static inline unsigned bin_number(size_t bytes) {
  if (bytes < SMALL_LIMIT_BYTES)
    return (unsigned)(bytes / CHUNK_ALIGNMENT);
  unsigned doubling = 63 - (unsigned)__builtin_clzll(bytes);
  unsigned number = SMALL_BINS + (doubling - 10) * SIZES_PER_DOUBLING +
                    ((unsigned)(bytes >> (doubling - 3)) & (SIZES_PER_DOUBLING - 1));
  return number < BINS ? number : BINS - 1;
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

/* The parts of the two functions below that are for large chunks only. */
void bins_leave_sizes(struct bins *bins, struct chunk *chunk);
void bins_add_large(struct links *list, struct chunk *chunk, size_t bytes);

/* Takes a free chunk out of whatever list it is in, after checking that its neighbours in list and heap agree. */
static inline void bins_unlink(struct bins *bins, struct chunk *chunk) {
  size_t bytes = chunk_bytes(chunk);
  if (UNLIKELY(bytes != chunk_next(chunk)->prev_bytes))
    fault("malloc", "size of a free chunk and the copy behind it differ", chunk);
  struct links *next = chunk->links.next, *prev = chunk->links.prev;
  if (UNLIKELY(next->prev != &chunk->links || prev->next != &chunk->links))
    fault("malloc", "corrupt links of a free chunk", chunk);
  if (bytes >= SMALL_LIMIT_BYTES && chunk->next_size)
    bins_leave_sizes(bins, chunk);
  next->prev = prev;
  prev->next = next;
}

/* The chunk must be marked free (chunk_set_free). To the unsorted bin, or to the bin of its size. */
static inline void bins_add_unsorted(struct bins *bins, struct chunk *chunk) {
  if (UNLIKELY(bins->unsorted.next->prev != &bins->unsorted))
    fault("free", "corrupt unsorted bin", chunk);
  if (chunk_bytes(chunk) >= SMALL_LIMIT_BYTES) /* smaller chunks may not have these words */
    chunk->next_size = chunk->prev_size = NULL;
  list_insert_after(&bins->unsorted, &chunk->links);
}

static inline void bins_add_sorted(struct bins *bins, struct chunk *chunk) {
  size_t bytes = chunk_bytes(chunk);
  HT_ASSERT(bytes >= CHUNK_MIN_BYTES && !chunk_prev_used(chunk_next(chunk)));
  unsigned number = bin_number(bytes);
  struct links *list = &bins->lists[number];
  bins->map[number / 64] |= (uint64_t)1 << number % 64;
  if (UNLIKELY(list->next->prev != list))
    fault("malloc", "corrupt bin", chunk);
  if (bytes < SMALL_LIMIT_BYTES)
    list_insert_after(list, &chunk->links);
  else
    bins_add_large(list, chunk, bytes);
}

/* The smallest chunk of at least that many bytes, unlinked, or NULL: from the large bin of that size, or from any bin
   beyond it. */
struct chunk *bins_take_best(struct bins *bins, size_t bytes);
struct chunk *bins_take_larger(struct bins *bins, size_t bytes);

#endif

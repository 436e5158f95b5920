/* SPDX-License-Identifier: MIT */
/* Bins: an arena's lists of free, coalesced chunks by size.

   Small bins hold one size each, oldest last. A large bin covers an eighth of a power of two, sorted by size; the first
   chunk of each size is in a ring of sizes, so that the search for the best fit visits distinct sizes, not chunks.
   (ptmalloc's bins get coarser with size; eight per doubling keep the rings short at 1.6 KB more per arena.) The
   remainder bin has at most one chunk: what the last small request left of the chunk from which it was cut. A bit per
   bin is set while it has chunks.

   Everything here needs the arena's lock. */
#pragma once

#include "allocators/common/base/fault.h"
#include "allocators/reference/base/chunk.h"
#include "core/base/assert.h"

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

/* SPDX-License-Identifier: MIT */
#include "allocators/reference/arena/bins.h"

#include "allocators/common/fault.h"
#include "core/base/assert.h"

void bins_setup(struct bins *bins) {
  bins->unsorted = (struct links){&bins->unsorted, &bins->unsorted};
  for (unsigned number = 0; number < BINS; number++)
    bins->lists[number] = (struct links){&bins->lists[number], &bins->lists[number]};
}

/* Takes a chunk of a large bin out of the ring of sizes, unless another of its size stands in for it. */
void bins_leave_sizes(struct bins *bins, struct chunk *chunk) {
  struct chunk *before = chunk->prev_size, *after = chunk->next_size;
  if (UNLIKELY(after->prev_size != chunk || before->next_size != chunk))
    fault("malloc", "corrupt ring of sizes in a large bin", chunk);
  struct links *list = &bins->lists[bin_number(chunk_bytes(chunk))];
  if (chunk->links.next != list) {
    struct chunk *heir = chunk_of_links(chunk->links.next);
    if (!heir->next_size) { /* the same size */
      if (after == chunk) {
        heir->next_size = heir->prev_size = heir;
      } else {
        heir->next_size = after;
        heir->prev_size = before;
        after->prev_size = before->next_size = heir;
      }
      return;
    }
  }
  after->prev_size = before;
  before->next_size = after;
}

void bins_add_large(struct links *list, struct chunk *chunk, size_t bytes) {
  if (list_is_empty(list)) {
    chunk->next_size = chunk->prev_size = chunk;
    list_insert_after(list, &chunk->links);
    return;
  }
  struct chunk *first = chunk_of_links(list->next);
  struct chunk *largest = first->prev_size;
  struct chunk *at = first;
  if (bytes > chunk_bytes(largest)) {
    chunk->next_size = first;
    chunk->prev_size = largest;
    first->prev_size = largest->next_size = chunk;
    list_insert_after(list->prev, &chunk->links);
    return;
  }
  while (chunk_bytes(at) < bytes)
    at = at->next_size;
  if (chunk_bytes(at) == bytes) {
    chunk->next_size = chunk->prev_size = NULL;
    list_insert_after(&at->links, &chunk->links);
    return;
  }
  HT_ASSERT(at == first || chunk_bytes(at->prev_size) < bytes);
  chunk->next_size = at;
  chunk->prev_size = at->prev_size;
  at->prev_size->next_size = chunk;
  at->prev_size = chunk;
  list_insert_after(at->links.prev, &chunk->links);
}

struct chunk *bins_take_best(struct bins *bins, size_t bytes) {
  struct links *list = &bins->lists[bin_number(bytes)];
  if (list_is_empty(list))
    return NULL;
  struct chunk *at = chunk_of_links(list->next), *largest = at->prev_size;
  if (chunk_bytes(largest) < bytes)
    return NULL;
  while (chunk_bytes(at) < bytes)
    at = at->next_size;
  /* Rather the second of its size: the ring needs no change then. */
  struct chunk *second = at->links.next == list ? NULL : chunk_of_links(at->links.next);
  if (second && !second->next_size)
    at = second;
  bins_unlink(bins, at);
  return at;
}

struct chunk *bins_take_larger(struct bins *bins, size_t bytes) {
  unsigned number = bin_number(bytes) + 1;
  for (unsigned word = number / 64; word < MAP_WORDS; word++) {
    uint64_t bits = bins->map[word];
    if (word == number / 64)
      bits &= ~(uint64_t)0 << number % 64;
    for (; bits; bits &= bits - 1) {
      unsigned found = word * 64 + (unsigned)__builtin_ctzll(bits);
      struct links *list = &bins->lists[found];
      if (list_is_empty(list)) {
        bins->map[word] &= ~(bits & -bits);
        continue;
      }
      /* A small bin's oldest, for it is most likely to have been coalesced already; a large bin's smallest. */
      struct chunk *chunk = chunk_of_links(found < SMALL_BINS ? list->prev : list->next);
      bins_unlink(bins, chunk);
      return chunk;
    }
  }
  return NULL;
}

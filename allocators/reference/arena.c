/* SPDX-License-Identifier: MIT */
#include "allocators/reference/arena.h"

#include "allocators/common/base.h"
#include "core/base/assert.h"

struct arena main_arena = {.by_break = false};

struct arena *arena_of_heap(struct chunk *chunk) {
  struct heap *heap = (struct heap *)((uintptr_t)chunk & ~(uintptr_t)(HEAP_BYTES - 1));
  struct arena *arena = heap->arena;
  if (UNLIKELY(!arena || arena->chunk_flag != CHUNK_OTHER_ARENA))
    fault("free", "invalid pointer: its heap has no arena", chunk_object(chunk));
  return arena;
}

void bins_setup(struct bins *bins) {
  for (unsigned number = 0; number < BINS; number++)
    bins->lists[number] = (struct links){&bins->lists[number], &bins->lists[number]};
}

/* Takes a chunk of a large bin out of the ring of sizes, unless another chunk of its size is in the ring. */
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

struct chunk *bins_best_fit(struct links *list, size_t bytes) {
  struct chunk *at = chunk_of_links(list->next);
  if (chunk_bytes(at->prev_size) < bytes) /* the largest */
    return NULL;
  while (chunk_bytes(at) < bytes)
    at = at->next_size;
  /* Prefer the second chunk of its size: then the ring needs no change. */
  struct chunk *second = at->links.next == list ? NULL : chunk_of_links(at->links.next);
  return second && !second->next_size ? second : at;
}

struct tcache no_cache;
__thread struct thread thread = {.cache = &no_cache};
uintptr_t tcache_key, fast_key;

void thread_setup(void) {
  uintptr_t words[2];
  secret_words(words);
  tcache_key = words[0];
  fast_key = words[1];
}

/* SPDX-License-Identifier: MIT */
#include "allocators/reference/arena/release.h"

#include "allocators/common/counters.h"
#include "allocators/reference/arena/fast.h"
#include "allocators/reference/arena/heap.h"

#include <errno.h>

/* Checks a used chunk in a heap of this arena: it has a used flag behind it and neighbours of possible size. Returns
   the head behind it. */
static size_t check_used(const struct arena *arena, const struct chunk *chunk, size_t bytes) {
  if (UNLIKELY(chunk >= arena->top && (uintptr_t)chunk < (uintptr_t)arena->heap + arena->heap->bytes))
    fault("free", "double free: the object is in the top chunk", chunk);
  size_t most = arena_system_bytes(arena);
  if (UNLIKELY(bytes < CHUNK_MIN_BYTES || bytes > most))
    fault("free", "overwritten size", chunk);
  size_t next_head = chunk_head(chunk_at(chunk, (ptrdiff_t)bytes));
  if (UNLIKELY(!(next_head & CHUNK_PREV_USED)))
    fault("free", "double free: the chunk is free, or overwritten size", chunk);
  if (UNLIKELY(next_head < CHUNK_ALIGNMENT || head_bytes(next_head) > most))
    fault("free", "overwritten size, of this object or behind it", chunk);
  return next_head;
}

size_t arena_release(struct arena *arena, struct chunk *chunk) {
  size_t head = chunk_head(chunk), bytes = head_bytes(head);
  size_t next_head = check_used(arena, chunk, bytes);
  struct chunk *next = chunk_at(chunk, (ptrdiff_t)bytes);
  if (!(head & CHUNK_PREV_USED)) {
    size_t prev_bytes = chunk->prev_bytes;
    chunk = chunk_at(chunk, -(ptrdiff_t)prev_bytes);
    if (UNLIKELY(chunk_bytes(chunk) != prev_bytes))
      fault("free", "overwritten size of the free chunk before", chunk);
    bins_unlink(&arena->bins, chunk);
    bytes += prev_bytes;
    COUNT(coalescings);
  }
  if (next == arena->top) {
    bytes += head_bytes(next_head);
    chunk_set_head(chunk, bytes | CHUNK_PREV_USED);
    arena->top = chunk;
    COUNT(coalescings);
    return bytes;
  }
  size_t next_bytes = head_bytes(next_head);
  if (!chunk_prev_used(chunk_at(next, (ptrdiff_t)next_bytes))) {
    bins_unlink(&arena->bins, next);
    bytes += next_bytes;
    COUNT(coalescings);
  }
  chunk_set_free(chunk, bytes, CHUNK_PREV_USED | arena->chunk_flag);
  bins_add(&arena->bins, chunk, bytes);
  return bytes;
}

void arena_consolidate(struct arena *arena) {
  COUNT(consolidations);
  atomic_store_explicit(&arena->have_fast, false, memory_order_relaxed);
  for (unsigned number = 0; number < FAST_BINS; number++) {
    struct cached *object = fast_take_all(arena, number);
    while (object) {
      if (UNLIKELY(!is_aligned(object) || fast_number(chunk_bytes(chunk_of(object))) != number))
        fault("free", "corrupt link or size in a fast bin", object);
      struct cached *next = cached_next(object);
      object->key = 0;
      arena_release(arena, chunk_of(object));
      object = next;
    }
  }
}

/* Returns the bytes of the top that were ever written: other bytes cost nothing. */
static size_t top_dirty_bytes(const struct arena *arena) {
  return arena->fresh - (uintptr_t)arena->top;
}

static __attribute__((noinline)) void trim(struct arena *arena, size_t limit) {
  if (atomic_load_explicit(&arena->have_fast, memory_order_relaxed))
    arena_consolidate(arena);
  if (top_dirty_bytes(arena) < limit)
    return;
  int error = errno;
  heap_trim(arena, tunables.top_pad);
  errno = error;
}

/* Trims from half of top_pad above the threshold, down to top_pad: a program that takes and frees at the top should not
   move the break each time. (All of top_pad saves postgres one sbrk in seven, at 0.6 % more memory.) */
void arena_trim(struct arena *arena, size_t merged_bytes) {
  size_t limit = tunable_now(&tunables.trim_threshold) + tunables.top_pad / 2;
  bool at_top = merged_bytes == chunk_bytes(arena->top);
  if (arena->chunk_flag) /* the main arena keeps its heaps */
    heap_drop_empty(arena);
  if (!at_top || top_dirty_bytes(arena) >= limit)
    trim(arena, limit);
}

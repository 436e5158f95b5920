/* SPDX-License-Identifier: MIT */
/* realloc: in place where the chunk or the free chunk behind it allows, by mremap for mappings, else by copying. */
#include "allocators/common/base/fault.h"
#include "allocators/common/calls/arguments.h"
#include "allocators/common/counters.h"
#include "allocators/common/tunables.h"
#include "allocators/reference/arena/arena.h"
#include "allocators/reference/arena/heap.h"
#include "allocators/reference/arena/mapped.h"
#include "allocators/reference/arena/release.h"

/* Gives back what the chunk has beyond bytes, if that suffices for a chunk; needs the lock. Not through the cache: a
   buffer that was grown and is cut to size is mostly before the top, which then begins there (through the cache, a
   replay of CPython's json took about 10 % more cycles, as its small objects were in such tails). */
static void cut_tail(struct arena *arena, struct chunk *chunk, size_t bytes) {
  size_t head = chunk_head(chunk), have = head_bytes(head);
  if (have - bytes < CHUNK_MIN_BYTES)
    return;
  COUNT(splits);
  struct chunk *rest = chunk_at(chunk, (ptrdiff_t)bytes);
  chunk_set_head(rest, (have - bytes) | CHUNK_PREV_USED | arena->chunk_flag);
  chunk_set_head(chunk, bytes | (head & CHUNK_FLAGS));
  arena_trim_if_large(arena, arena_release(arena, rest));
}

/* Makes the chunk at least that large with the free chunk behind it. Needs the lock. */
static bool grow_in_place(struct arena *arena, struct chunk *chunk, size_t bytes) {
  size_t head = chunk_head(chunk), have = head_bytes(head);
  struct chunk *next = chunk_next(chunk);
  size_t next_bytes = chunk_bytes(next);
  if (UNLIKELY(have < CHUNK_MIN_BYTES || have > arena_system_bytes(arena) || next_bytes < CHUNK_ALIGNMENT ||
               next_bytes > arena_system_bytes(arena) || !chunk_prev_used(next)))
    fault("realloc", "overwritten size, of this object or behind it, or the object is free", chunk_object(chunk));
  if (next == arena->top) {
    if (have + next_bytes < bytes + CHUNK_MIN_BYTES)
      return false;
    struct chunk *top = chunk_at(chunk, (ptrdiff_t)bytes);
    chunk_set_head(top, (have + next_bytes - bytes) | CHUNK_PREV_USED);
    arena->top = top;
    if (arena->fresh < (uintptr_t)top + CHUNK_OBJECT_OFFSET)
      arena->fresh = (uintptr_t)top + CHUNK_OBJECT_OFFSET;
    chunk_set_head(chunk, bytes | (head & CHUNK_FLAGS));
    return true;
  }
  if (have + next_bytes < bytes || chunk_prev_used(chunk_next(next)))
    return false;
  bins_unlink(&arena->bins, next);
  COUNT(coalescings);
  chunk_set_head(chunk, (have + next_bytes) | (head & CHUNK_FLAGS));
  chunk_set_prev_used(chunk_next(chunk));
  return true;
}

static bool resize_in_place(struct chunk *chunk, size_t bytes) {
  size_t head = chunk_head(chunk), have = head_bytes(head);
  if (have >= bytes && have - bytes < CHUNK_MIN_BYTES)
    return true;
  struct arena *arena = arena_of(chunk, head);
  lock_take(&arena->lock);
  bool done = have >= bytes || grow_in_place(arena, chunk, bytes);
  if (done)
    cut_tail(arena, chunk, bytes);
  arena_unlock(arena);
  return done;
}

void *allocator_realloc(void *object, size_t object_bytes) {
  void *result;
  if (UNLIKELY(realloc_is_special(object, object_bytes, &result)))
    return result;
  struct chunk *chunk = chunk_of(object);
  size_t head = chunk_head(chunk);
  if (UNLIKELY(!is_aligned(object) || head_bytes(head) < CHUNK_MIN_BYTES || head & CHUNK_NO_FLAG))
    fault("realloc", "invalid pointer, or overwritten size", object);
  if (head & CHUNK_MAPPED) {
    void *moved = mapped_resize(chunk, object_bytes);
    if (moved)
      return moved;
  } else if (resize_in_place(chunk, chunk_bytes_for(object_bytes))) {
    return object;
  }
  return realloc_by_copy(object, chunk_usable_bytes(chunk), object_bytes);
}

PUBLIC_NAME(void *, realloc, (void *object, size_t object_bytes), allocator_realloc);

/* SPDX-License-Identifier: MIT */
/* Objects at multiples of more than 16: takes a larger chunk, and gives back what is before and behind. */
#include "allocators/common/counters.h"
#include "allocators/common/hooks.h"
#include "allocators/common/tunables.h"
#include "allocators/reference/arena/arena.h"
#include "allocators/reference/arena/arenas.h"
#include "allocators/reference/arena/heap.h"
#include "allocators/reference/arena/mapped.h"
#include "allocators/reference/arena/release.h"
#include "allocators/reference/arena/take.h"

#include <string.h>

/* Cuts an aligned chunk of `bytes` from a chunk with room for it, and frees the rest. Needs the lock. */
static void *cut_aligned(struct arena *arena, struct chunk *chunk, size_t alignment, size_t bytes) {
  uintptr_t object = (uintptr_t)chunk_object(chunk);
  if (object & (alignment - 1)) {
    /* The part before must be large enough for a chunk. */
    uintptr_t aligned = round_up(object + CHUNK_MIN_BYTES, alignment);
    size_t lead = aligned - object, head = chunk_head(chunk);
    struct chunk *after = chunk_of((void *)aligned);
    chunk_set_head(after, (head_bytes(head) - lead) | CHUNK_PREV_USED | arena->chunk_flag);
    chunk_set_head(chunk, lead | (head & CHUNK_FLAGS));
    COUNT(splits);
    arena_release(arena, chunk);
    chunk = after;
  }
  size_t head = chunk_head(chunk), have = head_bytes(head);
  if (have - bytes >= CHUNK_MIN_BYTES) {
    struct chunk *rest = chunk_at(chunk, (ptrdiff_t)bytes);
    chunk_set_head(rest, (have - bytes) | CHUNK_PREV_USED | arena->chunk_flag);
    chunk_set_head(chunk, bytes | (head & CHUNK_FLAGS));
    COUNT(splits);
    arena_release(arena, rest);
  }
  return chunk_object(chunk);
}

static void *take_unfilled(size_t alignment, size_t object_bytes) {
  if (object_bytes > PTRDIFF_MAX || alignment > PTRDIFF_MAX / 4)
    return NULL;
  size_t bytes = chunk_bytes_for(object_bytes), padded;
  if (__builtin_add_overflow(bytes, alignment + CHUNK_MIN_BYTES, &padded) || padded > PTRDIFF_MAX)
    return NULL;
  if (padded >= tunable_now(&tunables.mmap_threshold))
    return mapped_take(object_bytes, alignment);
  struct arena *arena = arena_lock_mine();
  void *object = arena_take(arena, padded, NULL);
  if (object && !(chunk_head(chunk_of(object)) & CHUNK_MAPPED)) {
    object = cut_aligned(arena, chunk_of(object), alignment, bytes);
    arena_unlock(arena);
    return object;
  }
  arena_unlock(arena);
  if (object) /* another thread changed the threshold */
    mapped_release(chunk_of(object));
  return mapped_take(object_bytes, alignment);
}

void *allocator_take_aligned(size_t alignment, size_t object_bytes) {
  void *object = take_unfilled(alignment, object_bytes);
  if (object && UNLIKELY(tunables.perturb))
    memset(object, (int)tunables.perturb ^ 0xff, object_bytes);
  return object;
}

/* SPDX-License-Identifier: MIT */
#include "allocators/common/base.h"
#include "allocators/common/counters.h"
#include "allocators/common/entry.h"
#include "allocators/common/startup.h"
#include "allocators/common/tunables.h"
#include "allocators/reference/arena.h"
#include "allocators/reference/heap.h"
#include "allocators/reference/take.h"
#include "allocators/reference/tcache.h"

#include <errno.h>
#include <string.h>

/* free, from entry to return, in the order of an object's steps:

     free               the thread's cache has room for its size: done
     free_slow          any inconsistency ends the process
     free_mapping       a mapping is unmapped
     free_quick         small:
       free_to_cache      a full cache bin gives half back, and then has room
       free_to_fast       no cache: into a fast bin, without a lock
     free_to_arena      else, under the arena's lock:
       arena_release (take.c)
                          merged with its free neighbours, then into the bin of its size, or the top
       arena_trim_if_large  after a large one: fast bins are emptied, the end of the heap is given back */

static void free_slow(void *object);
static void free_mapping(struct chunk *chunk);
static void free_quick(struct cached *object, size_t bytes);
static void free_to_cache(struct cached *object, struct tcache_bin *bin);
static void free_to_fast(struct cached *object);
static void free_to_arena(struct chunk *chunk);

void allocator_free(void *object) {
  if (UNLIKELY(!object))
    return;
  size_t head = chunk_head(chunk_of(object));
  struct tcache *cache = thread.cache;
  size_t beyond = head - CHUNK_MIN_BYTES; /* huge for a size below the smallest, as it wraps */
  struct cached *cached = object;
  if (LIKELY(beyond < cache->inline_chunk_bytes && is_aligned((void *)((uintptr_t)object | (head & CHUNK_NO_FLAG))))) {
    struct tcache_bin *bin = &cache->bins[beyond / CHUNK_ALIGNMENT];
    if (LIKELY(bin->room > 0 && cached->key != tcache_key)) {
      tcache_push(bin, cached);
      return;
    }
  }
  free_slow(object);
}

static __attribute__((noinline)) void free_slow(void *object) {
  struct chunk *chunk = chunk_of(object);
  size_t head = chunk_head(chunk), bytes = head_bytes(head);
  if (UNLIKELY(!is_aligned(object)))
    fault("free", "invalid pointer: not a multiple of 16", object);
  if (UNLIKELY(bytes < CHUNK_MIN_BYTES || head & CHUNK_NO_FLAG || bytes > -(uintptr_t)chunk || !started))
    fault("free", "invalid pointer, or overwritten size", object);
  if (UNLIKELY(head & CHUNK_MAPPED)) {
    free_mapping(chunk);
    return;
  }
  if (bytes > quick_max_bytes)
    free_to_arena(chunk);
  else
    free_quick(object, bytes);
}

static __attribute__((noinline)) void free_quick(struct cached *object, size_t bytes) {
  struct tcache_bin *bin = tcache_bin_for(bytes);
  if (bin)
    free_to_cache(object, bin);
  else if (bytes <= fast_max_bytes)
    free_to_fast(object);
  else
    free_to_arena(chunk_of(object));
}

static __attribute__((noinline)) void free_mapping(struct chunk *chunk) {
  int error = errno;
  mapped_release(chunk);
  errno = error;
}

static void check_fast_double_free(const struct cached *object) {
  struct chunk *chunk = chunk_of(object);
  size_t head = chunk_head(chunk), bytes = head_bytes(head);
  if (bytes > fast_max_bytes)
    return;
  struct arena *arena = arena_of(chunk, head);
  lock_take(&arena->lock);
  const struct cached *at = atomic_load_explicit(&arena->fast[fast_number(bytes)], memory_order_acquire);
  for (; at && is_aligned(at); at = cached_next(at))
    if (at == object)
      fault("free", "double free: the object is in a fast bin", object);
  lock_drop(&arena->lock);
}

static inline void fill(struct chunk *chunk) {
  if (UNLIKELY(tunables.perturb))
    memset(chunk_object(chunk), (int)tunables.perturb, chunk_bytes(chunk) - CHUNK_OVERHEAD);
}

/* The older half of a full bin goes back, under one lock or in one exchange; the newest stay, as the processor has them
   in its caches. (Giving back the newest instead: a replay of perl's hashes took about 15 % more cycles.) */
static void free_to_cache(struct cached *object, struct tcache_bin *bin) {
  if (UNLIKELY(object->key == tcache_key))
    tcache_check_double_free(bin, object);
  if (UNLIKELY(object->key == fast_key))
    check_fast_double_free(object);
  fill(chunk_of(object));
  if (bin->room == 0)
    tcache_flush(bin, (uint32_t)tunables.tcache_count / 2);
  COUNT(tcache_frees);
  tcache_push(bin, object);
}

static void free_to_fast(struct cached *object) {
  struct chunk *chunk = chunk_of(object);
  size_t head = chunk_head(chunk), next_bytes = chunk_bytes(chunk_next(chunk));
  struct arena *arena = arena_of(chunk, head);
  if (UNLIKELY(object->key == fast_key))
    check_fast_double_free(object);
  fill(chunk);
  if (UNLIKELY(next_bytes < CHUNK_ALIGNMENT || next_bytes > arena_system_bytes(arena)))
    fault("free", "overwritten size, of this object or behind it", object);
  object->key = fast_key;
  COUNT(fast_frees);
  fast_push(arena, head_bytes(head), object, object);
}

static __attribute__((noinline)) void free_to_arena(struct chunk *chunk) {
  fill(chunk);
  struct arena *arena = arena_of(chunk, chunk_head(chunk));
  lock_take(&arena->lock);
  arena_trim_if_large(arena, arena_release(arena, chunk));
  arena_unlock(arena);
}

PUBLIC_NAME(void, free, (void *object), allocator_free);
PUBLIC_NAME(void, cfree, (void *object), allocator_free);

/* realloc: in place where the chunk or the free chunk behind it allows, by mremap for mappings, else by copying. */

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

/* free, from entry to return, in the order in which an object meets it:

     free               the thread's cache has room for its size: done
     free_slow          whatever looks wrong ends the process; a mapping is unmapped; a full cache bin gives half back
     fast_push          small: into a fast bin, without a lock
     arena_release      else merged with its free neighbours, then into the unsorted or a small bin, or the top
     arena_trim_if_large  after a large one: fast bins are emptied, the end of the heap is given back */
#include "allocators/reference/arena.h"
#include "allocators/reference/counters.h"
#include "allocators/reference/entry.h"
#include "allocators/reference/fast.h"
#include "allocators/reference/heap.h"
#include "allocators/reference/mapped.h"
#include "allocators/reference/startup.h"

#include <errno.h>
#include <string.h>

/* A free chunk this large is worth emptying the fast bins and looking at the top. */
enum { LARGE_FREE_BYTES = 65536 };

static void free_slow(void *object);
static void release_to_arena(struct chunk *chunk, size_t head);
static void check_used(const struct arena *arena, const struct chunk *chunk, const struct chunk *next, size_t bytes);

void reference_free(void *object) {
  if (UNLIKELY(!object))
    return;
  size_t head = chunk_head(chunk_of(object));
  struct tcache *cache = thread.cache;
  size_t number = tcache_number(head); /* huge for a size below the smallest: it wraps */
  struct cached *cached = object;
  if (LIKELY(number < cache->inline_bins && (((uintptr_t)object & 15) | (head & CHUNK_MARK)) == 0)) {
    struct tcache_bin *bin = &cache->bins[number];
    if (LIKELY(bin->room > 0 && cached->key != tcache_key)) {
      tcache_push(bin, cached);
      return;
    }
  }
  free_slow(object);
}

static void check_fast_double_free(struct arena *arena, const struct cached *object, size_t bytes) {
  if (bytes > tunables.fast_max_bytes)
    return;
  lock_take(&arena->lock);
  const struct cached *at = atomic_load_explicit(&arena->fast[fast_number(bytes)], memory_order_acquire);
  for (; at && is_aligned(at); at = cached_next(at))
    if (at == object)
      fault("free", "double free: the object is in a fast bin", object);
  lock_drop(&arena->lock);
}

static __attribute__((noinline)) void free_slow(void *object) {
  struct chunk *chunk = chunk_of(object);
  struct cached *cached = object;
  size_t head = chunk_head(chunk), bytes = head_bytes(head);
  if (UNLIKELY(!is_aligned(object)))
    fault("free", "invalid pointer: not a multiple of 16", object);
  if (UNLIKELY(bytes < CHUNK_MIN_BYTES || head & CHUNK_MARK || bytes > -(uintptr_t)chunk || !started))
    fault("free", "invalid pointer, or overwritten size", object);
  if (UNLIKELY(head & CHUNK_MAPPED)) {
    int error = errno;
    mapped_release(chunk);
    errno = error;
    return;
  }
  struct tcache_bin *bin = tcache_bin_for(bytes);
  if (UNLIKELY(cached->key == tcache_key && bin))
    tcache_check_double_free(bin, cached);
  if (UNLIKELY(cached->key == fast_key))
    check_fast_double_free(arena_of(chunk, head), cached, bytes);
  if (UNLIKELY(tunables.perturb))
    memset(object, (int)tunables.perturb, bytes - CHUNK_OVERHEAD);
  if (!bin) {
    release_to_arena(chunk, head);
    return;
  }
  /* The older half goes back, under one lock or in one exchange; the newest stay, for the processor has them in its
     caches. (Giving back the newest instead: a replay of perl's hashes took about 15 % more cycles.) */
  if (bin->room == 0)
    tcache_flush(bin, (uint32_t)tunables.tcache_count / 2);
  COUNT(tcache_frees);
  tcache_push(bin, cached);
}

static void release_to_arena(struct chunk *chunk, size_t head) {
  size_t bytes = head_bytes(head);
  struct arena *arena = arena_of(chunk, head);
  if (bytes <= tunables.fast_max_bytes) {
    struct cached *cached = chunk_object(chunk);
    size_t next_bytes = chunk_bytes(chunk_next(chunk));
    if (UNLIKELY(next_bytes < CHUNK_ALIGNMENT || next_bytes > arena_system_bytes(arena)))
      fault("free", "overwritten size, of this object or behind it", cached);
    cached->key = fast_key;
    COUNT(fast_frees);
    fast_push(arena, bytes, cached, cached);
    return;
  }
  int error = errno;
  lock_take(&arena->lock);
  arena_trim_if_large(arena, arena_release(arena, chunk));
  arena_unlock(arena);
  errno = error;
}

size_t arena_release(struct arena *arena, struct chunk *chunk) {
  size_t bytes = chunk_bytes(chunk);
  struct chunk *next = chunk_next(chunk);
  check_used(arena, chunk, next, bytes);
  if (!chunk_prev_used(chunk)) {
    size_t prev_bytes = chunk->prev_bytes;
    chunk = chunk_at(chunk, -(ptrdiff_t)prev_bytes);
    if (UNLIKELY(chunk_bytes(chunk) != prev_bytes))
      fault("free", "overwritten size of the free chunk before", chunk);
    bins_unlink(&arena->bins, chunk);
    bytes += prev_bytes;
    COUNT(coalescings);
  }
  if (next == arena->top) {
    bytes += chunk_bytes(next);
    chunk_set_head(chunk, bytes | CHUNK_PREV_USED);
    arena->top = chunk;
    COUNT(coalescings);
    if (chunk == heap_first_chunk(arena->heap))
      heap_drop_empty(arena);
    return chunk_bytes(arena->top);
  }
  if (!chunk_prev_used(chunk_next(next))) {
    bins_unlink(&arena->bins, next);
    bytes += chunk_bytes(next);
    COUNT(coalescings);
  }
  chunk_set_free(chunk, bytes, CHUNK_PREV_USED | arena->chunk_flag);
  /* Small ones go where the next request of their size looks first; sorting them later would be a second insertion. */
  if (bytes < SMALL_LIMIT_BYTES)
    bins_add_sorted(&arena->bins, chunk);
  else
    bins_add_unsorted(&arena->bins, chunk);
  return bytes;
}

/* A used chunk in a heap of this arena has a used flag behind it and neighbours of possible size. */
static void check_used(const struct arena *arena, const struct chunk *chunk, const struct chunk *next, size_t bytes) {
  if (UNLIKELY(chunk >= arena->top && (uintptr_t)chunk < (uintptr_t)arena->heap + arena->heap->bytes))
    fault("free", "double free: the object is in the top chunk", chunk);
  if (UNLIKELY(bytes < CHUNK_MIN_BYTES || bytes > arena_system_bytes(arena)))
    fault("free", "overwritten size", chunk);
  if (UNLIKELY(!chunk_prev_used(next)))
    fault("free", "double free: the chunk is free, or overwritten size", chunk);
  size_t next_bytes = chunk_bytes(next);
  if (UNLIKELY(next_bytes < CHUNK_ALIGNMENT || next_bytes > arena_system_bytes(arena)))
    fault("free", "overwritten size, of this object or behind it", chunk);
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

/* Bytes of the top that have ever been written: the others cost nothing. */
static size_t top_dirty_bytes(const struct arena *arena) {
  return arena->fresh - (uintptr_t)arena->top;
}

/* top_pad above the threshold, and down to top_pad: a program that takes and frees at the top should not move the break
   each time. */
void arena_trim_if_large(struct arena *arena, size_t merged_bytes) {
  if (LIKELY(merged_bytes < LARGE_FREE_BYTES))
    return;
  size_t limit = tunable_now(&tunables.trim_threshold) + tunables.top_pad;
  bool at_top = merged_bytes == chunk_bytes(arena->top);
  if (at_top && top_dirty_bytes(arena) < limit)
    return;
  if (atomic_load_explicit(&arena->have_fast, memory_order_relaxed))
    arena_consolidate(arena);
  if (top_dirty_bytes(arena) < limit)
    return;
  int error = errno;
  heap_trim(arena, tunables.top_pad);
  errno = error;
}

void reference_free_sized(void *object, size_t object_bytes) {
  if (object && UNLIKELY(is_aligned(object) && object_bytes > chunk_usable_bytes(chunk_of(object))))
    fault("free_sized", "the object is smaller than that", object);
  reference_free(object);
}

void reference_free_aligned_sized(void *object, size_t alignment, size_t object_bytes) {
  if (object && UNLIKELY((uintptr_t)object & (alignment - 1)))
    fault("free_aligned_sized", "the object is not aligned so", object);
  reference_free_sized(object, object_bytes);
}

PUBLIC_NAME(void, free, (void *object), reference_free);
PUBLIC_NAME(void, cfree, (void *object), reference_free);
PUBLIC_NAME(void, free_sized, (void *object, size_t object_bytes), reference_free_sized);
PUBLIC_NAME(void, free_aligned_sized, (void *object, size_t alignment, size_t object_bytes),
            reference_free_aligned_sized);

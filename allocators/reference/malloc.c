/* SPDX-License-Identifier: MIT */
#include "allocators/common/base.h"
#include "allocators/common/counters.h"
#include "allocators/common/entry.h"
#include "allocators/reference/arena.h"
#include "allocators/reference/heap.h"
#include "allocators/reference/take.h"
#include "allocators/reference/tcache.h"

#include <errno.h>
#include <string.h>

/* malloc and calloc, from entry to return, in the order of a request's steps:

     malloc             the thread's cache has an object of that size: done
     malloc_slow        it has none: size of the chunk, the thread's arena, its lock
     arena_take (take.c)
                        the arena's lists in turn
       take_fast          a fast bin: exactly that size, recently freed
       take_small         a small bin: exactly that size
       take_remainder     what the last small request left of the chunk from which it was cut
       take_larger        the smallest sufficient chunk of a bin; its unused part is free again
       take_top           the end of the heap
       make_room          more memory for the top, and retry; or a separate mapping for a large request

   Freeing is below. */

static void *malloc_slow(size_t object_bytes);
static void do_more(void *object, size_t object_bytes);
static void *take(size_t bytes, struct tcache_bin *bin);
static void *take_from_another(size_t bytes, struct arena *exhausted);
static void *map_huge(size_t bytes);

void *allocator_malloc(size_t object_bytes) {
  struct tcache *cache = thread.cache;
  if (LIKELY(object_bytes < cache->inline_limit_bytes)) {
    struct cached *object = tcache_pop(tcache_bin_for_request(cache, object_bytes));
    if (LIKELY(object != NULL))
      return object;
  }
  return malloc_slow(object_bytes);
}

/* If a tunable requires that every object is filled or every call counted, all requests come here. */
static __attribute__((noinline)) void *malloc_slow(size_t object_bytes) {
  startup();
  if (size_is_too_large(object_bytes))
    return NULL;
  size_t bytes = chunk_bytes_for(object_bytes);
  struct tcache_bin *bin = tcache_bin_for(bytes);
  void *object = bin ? tcache_pop(bin) : tcache_take_large(bytes);
  if (object)
    COUNT(tcache_hits);
  else if (UNLIKELY(!(object = take(bytes, bin)))) {
    errno = ENOMEM;
    return NULL;
  }
  if (UNLIKELY(requests_do_more))
    do_more(object, object_bytes);
  return object;
}

static __attribute__((noinline)) void do_more(void *object, size_t object_bytes) {
  tcache_make_bin(tcache_bin_for(chunk_bytes_for(object_bytes)));
  if (tunables.perturb)
    memset(object, (int)tunables.perturb ^ 0xff, object_bytes);
}

static inline void *take(size_t bytes, struct tcache_bin *bin) {
  void *object = map_huge(bytes);
  if (object)
    return object;
  struct arena *arena = arena_lock_mine();
  object = arena_take(arena, bytes, bin);
  arena_unlock(arena);
  return LIKELY(object != NULL) ? object : take_from_another(bytes, arena);
}

/* The arena has no memory and can't get any: takes from another arena, or makes a mapping, whatever the size. */
static void *take_from_another(size_t bytes, struct arena *exhausted) {
  void *object = NULL;
  struct arena *other = arena_lock_other(exhausted);
  if (other) {
    object = arena_take(other, bytes, NULL);
    arena_unlock(other);
  }
  return object ? object : mapped_take(bytes - CHUNK_OVERHEAD, CHUNK_ALIGNMENT);
}

/* Maps a request that is too large for any arena. Returns NULL for any other, and if there is no memory. */
static inline void *map_huge(size_t bytes) {
  if (LIKELY(bytes < HEAP_BYTES) || bytes < tunable_now(&tunables.mmap_threshold))
    return NULL;
  return mapped_take(bytes - CHUNK_OVERHEAD, CHUNK_ALIGNMENT);
}

/* Which part of an object must be cleared: nothing of a mapping, and nothing of heap that was never written. */
struct dirt {
  struct heap *heap;
  uintptr_t fresh;
};

static size_t dirty_bytes(const struct arena *arena, const struct dirt *before, void *object) {
  struct chunk *chunk = chunk_of(object);
  size_t head = chunk_head(chunk), usable = chunk_usable_bytes(chunk);
  if (head & CHUNK_MAPPED)
    return 0;
  if (arena->heap != before->heap) /* a new heap: anywhere, and the chunk may be in it or not */
    return usable;
  uintptr_t start = (uintptr_t)object, heap = (uintptr_t)arena->heap;
  if (start < heap || start >= heap + arena->heap->bytes || start + usable <= before->fresh)
    return usable; /* of an older heap: mappings are placed downwards, so it may be above the newest */
  return start >= before->fresh || before->fresh == 0 ? 0 : before->fresh - start;
}

static void *calloc_slow(size_t object_bytes) {
  startup();
  size_t bytes = chunk_bytes_for(object_bytes);
  struct tcache_bin *bin = tcache_bin_for(bytes);
  struct cached *cached = bin ? tcache_pop(bin) : tcache_take_large(bytes);
  if (cached) {
    COUNT(tcache_hits);
    return memset(cached, 0, object_bytes);
  }
  void *object = map_huge(bytes);
  if (!object) {
    struct arena *arena = arena_lock_mine();
    struct dirt before = {arena->heap, arena->fresh};
    object = arena_take(arena, bytes, bin);
    size_t dirty = object ? dirty_bytes(arena, &before, object) : 0;
    arena_unlock(arena);
    if (UNLIKELY(!object) && (object = take_from_another(bytes, arena)))
      dirty = chunk_head(chunk_of(object)) & CHUNK_MAPPED ? 0 : object_bytes;
    if (object)
      memset(object, 0, dirty < object_bytes ? dirty : object_bytes);
  }
  if (UNLIKELY(!object))
    errno = ENOMEM;
  else if (UNLIKELY(requests_do_more))
    tcache_make_bin(tcache_bin_for(bytes));
  return object;
}

void *allocator_calloc(size_t count, size_t element_bytes) {
  size_t object_bytes;
  if (!array_bytes(count, element_bytes, &object_bytes))
    return NULL;
  struct tcache *cache = thread.cache;
  if (LIKELY(object_bytes < cache->inline_limit_bytes)) {
    struct cached *object = tcache_pop(tcache_bin_for_request(cache, object_bytes));
    if (LIKELY(object != NULL))
      return memset(object, 0, object_bytes);
  }
  return calloc_slow(object_bytes);
}

PUBLIC_NAME(void *, malloc, (size_t object_bytes), allocator_malloc);
PUBLIC_NAME(void *, calloc, (size_t count, size_t element_bytes), allocator_calloc);

/* Objects at multiples of more than 16: takes a larger chunk, and gives back what is before and behind. */

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

/* Hooks with which the common code starts this allocator, and handles a fork. */

void allocator_start(void) {
  settings_setup();
  bins_setup(&main_arena.bins);
  tcache_setup();
}

void allocator_before_fork(void) {
  arenas_lock_all();
}

void allocator_after_fork(bool in_child) {
  arenas_unlock_all(in_child);
}

/* free, from entry to return, in the order of an object's steps:

     free               the thread's cache has room for its size: done
     free_slow          any inconsistency ends the process
     free_mapping       a mapping is unmapped
     free_quick         small:
       free_to_cache      a full cache bin gives half back, and then has room
       free_to_fast       no bin: into a fast bin, without a lock
     free_to_arena      else, under the arena's lock:
       arena_release (take.c)
                          merged with its free neighbours, then into the bin of its size, or the top
       arena_trim_if_large  after a large one: fast bins are emptied, the end of the heap is given back */

static void free_slow(void *object);
static void free_mapping(struct chunk *chunk);
static void free_quick(struct cached *object, size_t bytes);
static void free_uncached(struct cached *object, size_t bytes);
static void free_to_cache(struct cached *object, struct tcache_bin *bin);
static void free_to_fast(struct cached *object);
static void free_to_arena(struct chunk *chunk);
static void free_large(struct chunk *chunk, size_t bytes);

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

static bool is_leaked(void) {
  static _Atomic size_t frees;
  return (atomic_fetch_add_explicit(&frees, 1, memory_order_relaxed) + 1) % tunables.leak == 0;
}

static __attribute__((noinline)) void free_slow(void *object) {
  struct chunk *chunk = chunk_of(object);
  size_t head = chunk_head(chunk), bytes = head_bytes(head);
  if (UNLIKELY(!is_aligned(object)))
    fault("free", "invalid pointer: not a multiple of 16", object);
  if (UNLIKELY(bytes < CHUNK_MIN_BYTES || head & CHUNK_NO_FLAG || bytes > -(uintptr_t)chunk || !started))
    fault("free", "invalid pointer, or overwritten size", object);
  if (UNLIKELY(tunables.leak) && is_leaked())
    return;
  if (UNLIKELY(head & CHUNK_MAPPED)) {
    free_mapping(chunk);
    return;
  }
  if (bytes > quick_max_bytes)
    free_large(chunk, bytes);
  else
    free_quick(object, bytes);
}

static __attribute__((noinline)) void free_quick(struct cached *object, size_t bytes) {
  struct tcache_bin *bin = tcache_bin_for(bytes);
  if (bin)
    free_to_cache(object, bin);
  else
    free_uncached(object, bytes);
}

static void free_uncached(struct cached *object, size_t bytes) {
  if (bytes <= fast_max_bytes)
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
  if (bin->room == 0) {
    if (UNLIKELY(!tcache_bin_is_made(bin))) {
      free_uncached(object, chunk_bytes(chunk_of(object)));
      return;
    }
    tcache_flush(bin, (uint32_t)tunables.tcache_count / 2);
  }
  fill(chunk_of(object));
  COUNT(tcache_frees);
  tcache_push(bin, object);
}

static void free_large(struct chunk *chunk, size_t bytes) {
  struct tcache_bin *bin = tcache_large_with_room(bytes);
  struct cached *object = chunk_object(chunk);
  if (!bin) {
    free_to_arena(chunk);
    return;
  }
  if (UNLIKELY(object->key == tcache_key))
    tcache_check_double_free(bin, object);
  fill(chunk);
  COUNT(tcache_frees);
  tcache_put_large(bin, object);
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

static __attribute__((noinline)) void *resize(void *object, size_t object_bytes) {
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

/* Some programs take all their objects by realloc (lua): those need not save registers for resize. */
void *allocator_realloc(void *object, size_t object_bytes) {
  return object ? resize(object, object_bytes) : allocator_malloc(object_bytes);
}

PUBLIC_NAME(void *, realloc, (void *object, size_t object_bytes), allocator_realloc);

/* SPDX-License-Identifier: MIT */
/* free, from entry to return, in the order in which an object meets it:

     free               the thread's cache has room for its size: done
     free_slow          whatever looks wrong ends the process; a mapping is unmapped; a full cache bin gives half back
     fast_push          small: into a fast bin, without a lock
     arena_release (arena/release.c)
                        else merged with its free neighbours, then into the unsorted or a small bin, or the top
     arena_trim_if_large  after a large one: fast bins are emptied, the end of the heap is given back */
#include "allocators/common/counters.h"
#include "allocators/common/entry.h"
#include "allocators/common/startup.h"
#include "allocators/reference/arena/arena.h"
#include "allocators/reference/arena/fast.h"
#include "allocators/reference/arena/heap.h"
#include "allocators/reference/arena/mapped.h"
#include "allocators/reference/arena/release.h"
#include "allocators/reference/base/settings.h"
#include "allocators/reference/tcache.h"

#include <errno.h>
#include <string.h>

static void free_slow(void *object);
static void release_to_arena(struct chunk *chunk, size_t head);

void allocator_free(void *object) {
  if (UNLIKELY(!object))
    return;
  size_t head = chunk_head(chunk_of(object));
  struct tcache *cache = thread.cache;
  size_t beyond = head - CHUNK_MIN_BYTES; /* huge for a size below the smallest: it wraps */
  struct cached *cached = object;
  if (LIKELY(beyond < cache->inline_chunk_bytes && is_aligned((void *)((uintptr_t)object | (head & CHUNK_MARK))))) {
    struct tcache_bin *bin = &cache->bins[beyond / CHUNK_ALIGNMENT];
    if (LIKELY(bin->room > 0 && cached->key != tcache_key)) {
      tcache_push(bin, cached);
      return;
    }
  }
  free_slow(object);
}

static void check_fast_double_free(struct arena *arena, const struct cached *object, size_t bytes) {
  if (bytes > fast_max_bytes)
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
  if (bytes <= fast_max_bytes) {
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

PUBLIC_NAME(void, free, (void *object), allocator_free);
PUBLIC_NAME(void, cfree, (void *object), allocator_free);

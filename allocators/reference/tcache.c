/* SPDX-License-Identifier: MIT */
#include "allocators/reference/tcache.h"

#include "allocators/common/counters.h"
#include "allocators/common/entry.h"
#include "allocators/reference/arena.h"
#include "allocators/reference/heap.h"
#include "allocators/reference/take.h"

#include <string.h>

static void empty(struct tcache *cache) {
  for (size_t number = 0; number < cache->bin_count; number++)
    if (cache->bins[number].first)
      tcache_flush(&cache->bins[number], 0);
}

static void release(void *object) {
  struct chunk *chunk = chunk_of(object);
  struct arena *arena = arena_of(chunk, chunk_head(chunk));
  lock_take(&arena->lock);
  arena_release(arena, chunk);
  arena_unlock(arena);
}

/* Destructors of other libraries may run after this, and call malloc and free. */
static void on_thread_end(void *unused) {
  (void)unused;
  struct tcache *cache = thread.cache;
  thread.ended = true;
  thread.cache = &no_cache;
  if (cache != &no_cache) {
    empty(cache);
    release(cache);
  }
  arena_detach();
  if (tunables.stats)
    counters_end_thread();
}

void tcache_setup(void) {
  thread_setup();
  thread_end_setup(on_thread_end);
}

static struct tcache *make_cache(void) {
  size_t bin_count = tcache_number(chunk_bytes_for(tunables.tcache_max)) + 1;
  size_t bytes = sizeof(struct tcache) + bin_count * sizeof(struct tcache_bin);
  struct arena *arena = arena_lock_mine();
  struct tcache *cache = arena_take(arena, chunk_bytes_for(bytes), NULL);
  arena_unlock(arena);
  if (!cache)
    return NULL;
  memset(cache, 0, bytes);
  cache->bin_count = bin_count;
  for (size_t number = 0; number < bin_count; number++)
    cache->bins[number].room = (uint32_t)tunables.tcache_count;
  if (!tunables.stats && !tunables.perturb) {
    cache->inline_chunk_bytes = bin_count * CHUNK_ALIGNMENT;
    cache->inline_limit_bytes = tunables.tcache_max + 1;
  }
  return cache;
}

struct tcache *tcache_make(void) {
  struct tcache *cache = thread.ended ? NULL : make_cache();
  if (cache)
    thread.cache = cache;
  return thread.cache;
}

/* Cuts the list behind the first `keep` objects; returns the rest. */
static struct cached *cut(struct tcache_bin *bin, uint32_t keep) {
  struct cached *rest = bin->first;
  if (keep == 0) {
    bin->first = NULL;
    return rest;
  }
  struct cached *last = rest;
  for (uint32_t kept = 1; kept < keep && last; kept++)
    last = cached_next(last);
  if (!last)
    return NULL;
  rest = cached_next(last);
  last->next = cached_hide(last, NULL);
  return rest;
}

/* Gives the objects from first on that belong to this arena to its fast bin, in one exchange; returns what follows. */
static struct cached *flush_to_fast(struct arena *arena, struct cached *first, size_t bytes, uint32_t *count) {
  struct cached *last = first, *next;
  for (;;) {
    last->key = fast_key;
    ++*count;
    next = cached_next(last);
    if (!next || !is_aligned(next) || arena_of(chunk_of(next), chunk_head(chunk_of(next))) != arena)
      break;
    last = next;
  }
  fast_push(arena, bytes, first, last);
  return next;
}

void tcache_flush(struct tcache_bin *bin, uint32_t keep) {
  struct cached *object = cut(bin, keep);
  struct arena *held = NULL;
  uint32_t count = 0;
  while (object) {
    if (UNLIKELY(!is_aligned(object)))
      fault("free", "corrupt link in a tcache", object);
    struct chunk *chunk = chunk_of(object);
    size_t head = chunk_head(chunk), bytes = head_bytes(head);
    struct arena *arena = arena_of(chunk, head);
    if (bytes <= fast_max_bytes) {
      object = flush_to_fast(arena, object, bytes, &count);
      continue;
    }
    if (arena != held) {
      if (held)
        arena_unlock(held);
      lock_take(&arena->lock);
      held = arena;
    }
    struct cached *next = cached_next(object);
    object->key = 0;
    arena_trim_if_large(arena, arena_release(arena, chunk));
    count++;
    object = next;
  }
  if (held)
    arena_unlock(held);
  bin->room += count;
  COUNT_MANY(tcache_flushed, count);
}

void tcache_check_double_free(const struct tcache_bin *bin, const struct cached *object) {
  const struct cached *at = bin->first;
  for (size_t step = 0; at && step < tunables.tcache_count; step++, at = cached_next(at)) {
    if (!is_aligned(at))
      fault("free", "corrupt link in a tcache", at);
    if (at == object)
      fault("free", "double free: the object is in a tcache", object);
  }
}

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
  for (size_t number = 0; number < TCACHE_LARGE_BINS; number++)
    if (cache->large[number].first)
      tcache_flush(&cache->large[number], 0);
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
  if (!tunables.tcache_on_request) {
    for (size_t number = 0; number < bin_count; number++)
      cache->bins[number].room = (uint32_t)tunables.tcache_count;
    for (size_t number = 0; number < TCACHE_LARGE_BINS; number++)
      cache->large[number].room = (uint32_t)tunables.tcache_count;
  }
  if (!tunables.stats && !tunables.perturb && !tunables.leak) {
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

/* NULL: the thread has no cache, or chunks of that size are too large for it. */
static struct tcache_bin *large_bin(size_t chunk_bytes) {
  if (LIKELY(!tunables.tcache_large) || !tunables.tcache || chunk_bytes > chunk_bytes_for(tunables.tcache_large))
    return NULL;
  struct tcache *cache = thread.cache == &no_cache ? tcache_make() : thread.cache;
  size_t bits = 63 - (size_t)__builtin_clzl(chunk_bytes);
  size_t number = bits < TCACHE_LARGE_FIRST_BITS ? 0 : bits - TCACHE_LARGE_FIRST_BITS;
  return cache == &no_cache || number >= TCACHE_LARGE_BINS ? NULL : &cache->large[number];
}

/* Returns the first object of that size or above; *before: the one before it, NULL: it is the first. */
static struct cached *find(const struct tcache_bin *bin, size_t chunk_bytes, struct cached **before) {
  struct cached *at = bin->first;
  *before = NULL;
  while (at && head_bytes(chunk_head(chunk_of(at))) < chunk_bytes) {
    *before = at;
    at = cached_next(at);
    if (UNLIKELY(!is_aligned(at)))
      fault("malloc", "corrupt link in a tcache", *before);
  }
  return at;
}

static void link_behind(struct tcache_bin *bin, struct cached *before, struct cached *object) {
  if (before)
    before->next = cached_hide(before, object);
  else
    bin->first = object;
}

struct cached *tcache_take_large(size_t chunk_bytes) {
  struct tcache_bin *bin = large_bin(chunk_bytes);
  tcache_make_bin(bin);
  struct cached *before, *object = bin ? find(bin, chunk_bytes, &before) : NULL;
  if (!object || head_bytes(chunk_head(chunk_of(object))) != chunk_bytes)
    return NULL;
  link_behind(bin, before, cached_next(object));
  bin->room++;
  object->key = 0;
  return object;
}

struct tcache_bin *tcache_large_with_room(size_t chunk_bytes) {
  struct tcache_bin *bin = large_bin(chunk_bytes);
  return bin && bin->room > 0 ? bin : NULL;
}

void tcache_put_large(struct tcache_bin *bin, struct cached *object) {
  struct cached *before, *next = find(bin, head_bytes(chunk_head(chunk_of(object))), &before);
  cached_set_key(object, tcache_key);
  object->next = cached_hide(object, next);
  link_behind(bin, before, object);
  bin->room--;
}

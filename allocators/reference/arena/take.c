/* SPDX-License-Identifier: MIT */
#include "allocators/reference/arena/take.h"

#include "allocators/common/counters.h"
#include "allocators/reference/arena/fast.h"
#include "allocators/reference/arena/heap.h"
#include "allocators/reference/arena/mapped.h"
#include "allocators/reference/arena/release.h"
#include "allocators/reference/base/settings.h"
#include "core/base/split_mix.h"

enum { AHEAD_BYTES_MAX = 4096 }; /* to split off ahead for the cache: an OS page, for any size */

static void *take_fast(struct arena *arena, size_t bytes, struct tcache_bin *bin);
static void *take_small(struct arena *arena, size_t bytes, struct tcache_bin *bin);
static struct chunk *take_remainder(struct arena *arena, size_t bytes);
static struct chunk *take_larger(struct arena *arena, size_t bytes);
static void *split(struct arena *arena, struct chunk *chunk, size_t bytes, struct tcache_bin *bin);
static void *take_top(struct arena *arena, size_t bytes, struct tcache_bin *bin);
static void *take_top_at_random(struct arena *arena, size_t bytes, struct tcache_bin *bin);
static bool make_room(struct arena *arena, size_t bytes, void **mapping);

void *arena_take(struct arena *arena, size_t bytes, struct tcache_bin *bin) {
  void *object = NULL;
  if (bytes <= fast_max_bytes && (object = take_fast(arena, bytes, bin)))
    return object;
  if (bytes < SMALL_LIMIT_BYTES) {
    if ((object = take_small(arena, bytes, bin)))
      return object;
  } else if (UNLIKELY(atomic_load_explicit(&arena->have_fast, memory_order_relaxed))) {
    /* A large request: small free chunks may coalesce to what it needs, and would fragment the heap if they stayed. */
    arena_consolidate(arena);
  }
  do {
    struct chunk *chunk = take_remainder(arena, bytes);
    if (!chunk)
      chunk = take_larger(arena, bytes);
    if (chunk)
      return split(arena, chunk, bytes, bin);
    object = UNLIKELY(tunables.placement_seed) ? take_top_at_random(arena, bytes, bin) : take_top(arena, bytes, bin);
    if (LIKELY(object != NULL))
      return object;
  } while (make_room(arena, bytes, &object));
  return object;
}

/* After a failed search: returns whether to search again. If not, *mapping is an object, or NULL: no memory. */
static __attribute__((noinline)) bool make_room(struct arena *arena, size_t bytes, void **mapping) {
  if (atomic_load_explicit(&arena->have_fast, memory_order_relaxed)) {
    arena_consolidate(arena);
    return true;
  }
  if (bytes >= tunable_now(&tunables.mmap_threshold) &&
      (*mapping = mapped_take(bytes - CHUNK_OVERHEAD, CHUNK_ALIGNMENT)))
    return false;
  return heap_grow(arena, bytes);
}

static void *take_fast(struct arena *arena, size_t bytes, struct tcache_bin *bin) {
  unsigned got;
  struct cached *object = fast_pop(arena, bytes, 1 + (bin ? tcache_refill_count(bin) : 0), &got);
  if (!object)
    return NULL;
  COUNT(fast_hits);
  struct cached *next = cached_next(object);
  for (unsigned index = 1; index < got; index++) {
    struct cached *stashed = next;
    next = cached_next(stashed);
    tcache_push(bin, stashed);
    COUNT(tcache_refilled);
  }
  object->key = 0;
  return object;
}

/* Uses a free, unlinked chunk as a whole. */
static void *use_whole(struct chunk *chunk) {
  chunk_set_prev_used(chunk_next(chunk));
  return chunk_object(chunk);
}

static void *take_small(struct arena *arena, size_t bytes, struct tcache_bin *bin) {
  struct links *list = &arena->bins.lists[bin_number(bytes)];
  if (list_is_empty(list))
    return NULL;
  COUNT(small_hits);
  struct chunk *chunk = chunk_of_links(list->prev);
  bins_unlink(&arena->bins, chunk);
  for (unsigned count = bin ? tcache_refill_count(bin) : 0; count > 0 && !list_is_empty(list); count--) {
    struct chunk *stashed = chunk_of_links(list->prev);
    bins_unlink(&arena->bins, stashed);
    tcache_push(bin, use_whole(stashed));
    COUNT(tcache_refilled);
  }
  return use_whole(chunk);
}

static void check_remainder(const struct arena *arena, const struct chunk *chunk, size_t bytes) {
  if (UNLIKELY(bytes < CHUNK_MIN_BYTES || bytes > arena_system_bytes(arena) || !is_aligned(chunk)))
    fault("malloc", "overwritten size of a free chunk", chunk);
  if (UNLIKELY(chunk_prev_used(chunk_next(chunk))))
    fault("malloc", "a free chunk is in use", chunk);
}

/* Consecutive small requests are cut from one chunk, so that their objects are side by side. For another request the
   remainder is a free chunk like any other, and goes to its bin. */
static struct chunk *take_remainder(struct arena *arena, size_t bytes) {
  struct chunk *chunk = bins_remainder(&arena->bins);
  if (!chunk)
    return NULL;
  size_t have = chunk_bytes(chunk);
  check_remainder(arena, chunk, have);
  bins_unlink(&arena->bins, chunk);
  if (have == bytes || (bytes < SMALL_LIMIT_BYTES && have > bytes + CHUNK_MIN_BYTES)) {
    COUNT(remainder_hits);
    return chunk;
  }
  bins_add(&arena->bins, chunk, have);
  return NULL;
}

static inline struct chunk *take_larger(struct arena *arena, size_t bytes) {
  struct chunk *chunk = bins_take(&arena->bins, bytes);
  if (chunk)
    COUNT(large_hits);
  return chunk;
}

/* Returns how many objects of that size to split off ahead for the cache, out of room_bytes. */
static unsigned ahead_count(struct tcache_bin *bin, size_t bytes, size_t room_bytes) {
  if (!bin)
    return 0;
  unsigned most = tcache_refill_count(bin), count = bin->refill < most ? bin->refill : most;
  bin->refill = 2 * count + 1;
  if (room_bytes > AHEAD_BYTES_MAX)
    room_bytes = AHEAD_BYTES_MAX;
  return count * bytes <= room_bytes ? count : (unsigned)(room_bytes / bytes);
}

/* Puts the chunks of a run behind its first one into the cache, to be taken in order of address. */
static __attribute__((noinline)) void cache_ahead(struct chunk *run, size_t head, struct tcache_bin *bin,
                                                  unsigned ahead) {
  for (unsigned index = ahead; index > 0; index--) {
    struct chunk *chunk = chunk_at(run, (ptrdiff_t)(index * head_bytes(head)));
    chunk_set_head(chunk, head);
    tcache_push(bin, chunk_object(chunk));
    COUNT(tcache_refilled);
  }
}

/* Makes the first chunk of a run of 1 + ahead of that size an object; the others go to the cache. */
static inline void *carve(struct arena *arena, struct chunk *run, size_t bytes, struct tcache_bin *bin,
                          unsigned ahead) {
  size_t head = bytes | CHUNK_PREV_USED | arena->chunk_flag;
  chunk_set_head(run, head);
  if (ahead > 0)
    cache_ahead(run, head, bin, ahead);
  return chunk_object(run);
}

/* Serves a request from a free, unlinked chunk that is large enough. */
static inline void *split(struct arena *arena, struct chunk *chunk, size_t bytes, struct tcache_bin *bin) {
  size_t have = chunk_bytes(chunk);
  if (have - bytes < CHUNK_MIN_BYTES)
    return use_whole(chunk);
  COUNT(splits);
  unsigned ahead = ahead_count(bin, bytes, have - bytes - CHUNK_MIN_BYTES);
  size_t used = bytes * (1 + ahead);
  struct chunk *rest = chunk_at(chunk, (ptrdiff_t)used);
  chunk_set_free(rest, have - used, CHUNK_PREV_USED | arena->chunk_flag);
  if (bytes < SMALL_LIMIT_BYTES)
    bins_set_remainder(&arena->bins, rest);
  else
    bins_add(&arena->bins, rest, have - used);
  return carve(arena, chunk, bytes, bin, ahead);
}

static inline void *take_top(struct arena *arena, size_t bytes, struct tcache_bin *bin) {
  struct chunk *top = arena->top;
  if (UNLIKELY(!top))
    return NULL;
  size_t have = chunk_bytes(top);
  if (UNLIKELY(have > arena_system_bytes(arena)))
    fault("malloc", "overwritten size of the top chunk", top);
  if (have < bytes + CHUNK_MIN_BYTES)
    return NULL;
  COUNT(top_hits);
  unsigned ahead = ahead_count(bin, bytes, have - bytes - CHUNK_MIN_BYTES);
  size_t used = bytes * (1 + ahead);
  struct chunk *rest = chunk_at(top, (ptrdiff_t)used);
  uintptr_t written = (uintptr_t)rest + CHUNK_OBJECT_OFFSET;
  if (arena->fresh < written)
    arena->fresh = written;
  chunk_set_head(rest, (have - used) | CHUNK_PREV_USED);
  arena->top = rest;
  return carve(arena, top, bytes, bin, ahead);
}

/* Returns the next number of the seed's sequence (splitmix64). One sequence for all arenas: a program with one thread
   gets the same layout each time. */
static uint64_t next_random(void) {
  static _Atomic uint64_t drawn;
  return split_mix(tunables.placement_seed * SPLIT_MIX_STEP +
                   atomic_fetch_add_explicit(&drawn, 1, memory_order_relaxed) * 0xd1342543de82ef95u);
}

/* Takes from behind a gap of random length. The gap is released as a free chunk, so that later requests fill it:
   objects get random addresses, and hardly any memory is lost. */
static __attribute__((noinline)) void *take_top_at_random(struct arena *arena, size_t bytes, struct tcache_bin *bin) {
  uint64_t random = next_random();
  size_t skipped =
      CHUNK_MIN_BYTES + (size_t)(random >> 8) % tunables.placement_slack / CHUNK_ALIGNMENT * CHUNK_ALIGNMENT;
  bool room = arena->top && chunk_bytes(arena->top) >= skipped + bytes + CHUNK_MIN_BYTES;
  void *gap = room && random % 2 ? take_top(arena, skipped, NULL) : NULL;
  void *object = take_top(arena, bytes, bin);
  if (gap)
    arena_release(arena, chunk_of(gap));
  return object;
}

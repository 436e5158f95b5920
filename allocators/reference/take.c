/* SPDX-License-Identifier: MIT */
#include "allocators/reference/take.h"

#include "allocators/common/counters.h"
#include "allocators/common/entry.h"
#include "allocators/reference/arena.h"
#include "allocators/reference/heap.h"
#include "core/base/split_mix.h"

#include <errno.h>
#include <unistd.h>

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

/* Marks all chunks of a fast bin's list as free, in no bin yet; they keep their links and have fast_key. */
static void mark_free(const struct arena *arena, struct cached *object, unsigned number) {
  size_t bytes = CHUNK_MIN_BYTES + number * CHUNK_ALIGNMENT, most = arena_system_bytes(arena);
  uintptr_t key = fast_key;
  for (; object; object = cached_next(object)) {
    struct chunk *next = chunk_at(chunk_of(object), (ptrdiff_t)bytes);
    if (UNLIKELY(!is_aligned(object) || chunk_bytes(chunk_of(object)) != bytes))
      fault("free", "corrupt link or size in a fast bin", object);
    size_t next_head = chunk_head(next);
    if (UNLIKELY(!(next_head & CHUNK_PREV_USED)))
      fault("free", "double free: the chunk is free, or overwritten size", object);
    if (UNLIKELY(next_head - CHUNK_ALIGNMENT >= most))
      fault("free", "overwritten size, of this object or behind it", object);
    next->prev_bytes = bytes;
    chunk_set_head(next, next_head & ~(size_t)CHUNK_PREV_USED);
    cached_set_key(object, key);
  }
}

/* Takes a free chunk, which becomes part of another one, out of its bin, or unmarks it. */
static void absorb(struct arena *arena, struct chunk *chunk) {
  struct cached *object = chunk_object(chunk);
  COUNT(coalescings);
  if (object->key == fast_key)
    object->key = 0;
  else
    bins_unlink(&arena->bins, chunk);
}

/* Makes a marked chunk and all free chunks behind it one, with the chunk before it if that is in a bin. If that is
   marked, too, nothing: the first marked one of a row does it. */
static void merge_marked(struct arena *arena, struct chunk *chunk) {
  struct chunk *end = chunk_next(chunk);
  if (!chunk_prev_used(chunk)) {
    size_t prev_bytes = chunk->prev_bytes;
    struct chunk *prev = chunk_at(chunk, -(ptrdiff_t)prev_bytes);
    if (((struct cached *)chunk_object(prev))->key == fast_key)
      return;
    if (UNLIKELY(chunk_bytes(prev) != prev_bytes))
      fault("free", "overwritten size of the free chunk before", chunk);
    absorb(arena, prev);
    ((struct cached *)chunk_object(chunk))->key = 0;
    chunk = prev;
  } else {
    ((struct cached *)chunk_object(chunk))->key = 0;
  }
  while (end != arena->top) {
    struct chunk *behind = chunk_next(end);
    if (chunk_prev_used(behind)) {
      size_t bytes = (uintptr_t)end - (uintptr_t)chunk;
      chunk_set_free(chunk, bytes, CHUNK_PREV_USED | arena->chunk_flag);
      bins_add(&arena->bins, chunk, bytes);
      return;
    }
    absorb(arena, end);
    end = behind;
  }
  COUNT(coalescings);
  chunk_set_head(chunk, ((uintptr_t)end - (uintptr_t)chunk + chunk_bytes(end)) | CHUNK_PREV_USED);
  arena->top = chunk;
}

/* In two passes, as neighbours are mostly freed together: each row of free chunks enters a bin once, where releasing
   one after another moves what they have become from bin to bin (lua: 149 instructions per chunk, now 68). */
void arena_consolidate(struct arena *arena) {
  struct cached *lists[FAST_BINS];
  COUNT(consolidations);
  atomic_store_explicit(&arena->have_fast, false, memory_order_relaxed);
  for (unsigned number = 0; number < FAST_BINS; number++)
    mark_free(arena, lists[number] = fast_take_all(arena, number), number);
  for (unsigned number = 0; number < FAST_BINS; number++)
    for (struct cached *object = lists[number], *next; object; object = next) {
      next = cached_next(object); /* before the chunk is in a bin */
      if (object->key == fast_key)
        merge_marked(arena, chunk_of(object));
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

enum {
  ARENAS_PER_PROCESSOR = 8,
  CONTENDED_LIMIT = 16, /* consecutive waits after which a thread searches for another arena */
};

static struct lock list_lock; /* for the list's end, and for making arenas */
static unsigned arena_count = 1;

static unsigned arena_limit(void) {
  static unsigned limit;
  if (tunables.arenas)
    return (unsigned)tunables.arenas;
  if (limit == 0)
    limit = processors() * ARENAS_PER_PROCESSOR;
  return limit;
}

/* Returns the arena with the fewest threads; of several, the main one. */
static struct arena *least_used(void) {
  struct arena *best = &main_arena;
  for (struct arena *arena = arena_next(best); arena; arena = arena_next(arena))
    if (atomic_load_explicit(&arena->threads, memory_order_relaxed) <
        atomic_load_explicit(&best->threads, memory_order_relaxed))
      best = arena;
  return best;
}

static struct arena *append_new(void) {
  struct arena *arena = heap_new_arena(arena_count);
  if (!arena)
    return NULL;
  struct arena *last = &main_arena;
  while (arena_next(last))
    last = arena_next(last);
  atomic_store_explicit(&last->next, arena, memory_order_release);
  arena_count++;
  return arena;
}

static void attach(struct arena *arena) {
  COUNT(atomics);
  atomic_fetch_add_explicit(&arena->threads, 1, memory_order_relaxed);
  thread.arena = arena;
  thread.contended = 0;
}

/* Attaches to an arena that no thread uses, else to a new one, else to the one that the fewest threads share. */
static void attach_first_time(void) {
  if (thread.ended) { /* its last calls: not counted, as the count would not be taken back */
    thread.arena = &main_arena;
    return;
  }
  lock_take(&list_lock);
  struct arena *arena = least_used();
  if (atomic_load_explicit(&arena->threads, memory_order_relaxed) > 0 && arena_count < arena_limit()) {
    struct arena *made = append_new();
    arena = made ? made : arena;
  }
  attach(arena);
  lock_drop(&list_lock);
  thread_end_watch(); /* may call calloc: the thread has an arena then, and does not come here again */
}

void arena_detach(void) {
  if (!thread.arena)
    return;
  COUNT(atomics);
  atomic_fetch_sub_explicit(&thread.arena->threads, 1, memory_order_relaxed);
  thread.arena = NULL;
}

/* Moves the thread to an arena that has fewer threads than its own and whose lock is free right now. */
static struct arena *move_to_idle(struct arena *from) {
  thread.contended = 0;
  struct arena *to = least_used();
  if (atomic_load_explicit(&to->threads, memory_order_relaxed) + 1 >=
          atomic_load_explicit(&from->threads, memory_order_relaxed) ||
      !lock_try(&to->lock))
    return NULL;
  COUNT(arena_switches);
  arena_detach();
  attach(to);
  return to;
}

/* The thread has no arena yet, or its lock was just found taken. */
struct arena *arena_lock_mine_slow(void) {
  if (!thread.arena) {
    attach_first_time();
    lock_take(&thread.arena->lock);
    return thread.arena;
  }
  struct arena *arena = thread.arena;
  if (++thread.contended >= CONTENDED_LIMIT) {
    struct arena *idle = move_to_idle(arena);
    if (idle)
      return idle;
  }
  COUNT(locks_contended);
  COUNT(atomics);
  lock_wait(&arena->lock);
  return arena;
}

struct arena *arena_lock_other(struct arena *exhausted) {
  struct arena *other = exhausted == &main_arena ? arena_next(&main_arena) : &main_arena;
  if (other)
    lock_take(&other->lock);
  return other;
}

void arenas_lock_all(void) {
  lock_take(&list_lock);
  for (struct arena *arena = &main_arena; arena; arena = arena_next(arena))
    lock_take(&arena->lock);
}

void arenas_unlock_all(bool in_child) {
  for (struct arena *arena = &main_arena; arena; arena = arena_next(arena)) {
    if (in_child)
      atomic_store_explicit(&arena->threads, arena == thread.arena, memory_order_relaxed);
    lock_drop(&arena->lock);
  }
  lock_drop(&list_lock);
}

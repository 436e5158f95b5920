/* SPDX-License-Identifier: MIT */
/* Fast bins: per arena and size, a list of small objects that were freed and not coalesced. Any thread pushes without
   the lock; only its holder pops, so a popped object can't return meanwhile and be mistaken (no ABA).

   Tunable fastchunks: how a push marks that there is something to consolidate. relaxed: an atomic store, not a
   read-modify-write, which many threads may repeat; atomic: an exchange, the obvious first version. */
#pragma once

#include "allocators/common/base/fault.h"
#include "allocators/reference/arena/arena.h"

static inline unsigned fast_number(size_t bytes) {
  return (unsigned)((bytes - CHUNK_MIN_BYTES) / CHUNK_ALIGNMENT);
}

/* Pushes the linked list from first to last, all chunks of that size and of this arena. */
static inline void fast_push(struct arena *arena, size_t bytes, struct cached *first, struct cached *last) {
  struct cached *_Atomic *list = &arena->fast[fast_number(bytes)];
  struct cached *old = atomic_load_explicit(list, memory_order_relaxed);
  if (UNLIKELY(old == first))
    fault("free", "double free: the object is in a fast bin", first);
  if (!threads_may_run()) {
    last->next = cached_hide(last, old);
    atomic_store_explicit(list, first, memory_order_relaxed);
    atomic_store_explicit(&arena->have_fast, true, memory_order_relaxed);
    return;
  }
  do {
    last->next = cached_hide(last, old);
    COUNT(atomics);
  } while (!atomic_compare_exchange_weak_explicit(list, &old, first, memory_order_release, memory_order_relaxed));
  if (UNLIKELY(tunables.fastchunks)) {
    COUNT(atomics);
    atomic_exchange_explicit(&arena->have_fast, true, memory_order_relaxed);
  } else if (!atomic_load_explicit(&arena->have_fast, memory_order_relaxed)) {
    atomic_store_explicit(&arena->have_fast, true, memory_order_relaxed);
  }
}

/* Pops up to count objects as a list; *got: their number. NULL: empty. Needs the lock. */
static inline struct cached *fast_pop(struct arena *arena, size_t bytes, unsigned count, unsigned *got) {
  struct cached *_Atomic *list = &arena->fast[fast_number(bytes)];
  struct cached *first = atomic_load_explicit(list, memory_order_acquire), *rest;
  do {
    rest = first;
    for (*got = 0; rest && *got < count; ++*got) {
      if (UNLIKELY(!is_aligned(rest) || chunk_bytes(chunk_of(rest)) != bytes))
        fault("malloc", "corrupt link or size in a fast bin", rest);
      rest = cached_next(rest);
    }
    if (!first)
      return NULL;
    if (!threads_may_run()) {
      atomic_store_explicit(list, rest, memory_order_relaxed);
      return first;
    }
    COUNT(atomics);
  } while (!atomic_compare_exchange_strong_explicit(list, &first, rest, memory_order_acquire, memory_order_acquire));
  return first;
}

/* Takes the whole list. Needs the lock. */
static inline struct cached *fast_take_all(struct arena *arena, unsigned number) {
  struct cached *_Atomic *list = &arena->fast[number];
  struct cached *first = atomic_load_explicit(list, memory_order_relaxed);
  if (!first)
    return NULL;
  if (!threads_may_run()) {
    atomic_store_explicit(list, NULL, memory_order_relaxed);
    return first;
  }
  COUNT(atomics);
  return atomic_exchange_explicit(list, NULL, memory_order_acquire);
}

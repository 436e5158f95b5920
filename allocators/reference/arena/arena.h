/* SPDX-License-Identifier: MIT */
/* An arena: heaps, the lists of free chunks in them, and a lock. Threads share arenas; a chunk returns to its own
   arena.

   The main arena grows by the break. Each other arena has heaps of HEAP_BYTES at multiples of HEAP_BYTES, so that a
   mask finds a chunk's heap, and through it the arena. Arenas live forever: they are few, and are reused. */
#pragma once

#include "allocators/common/lock.h"
#include "allocators/reference/arena/bins.h"

enum { HEAP_BYTES = 64 << 20 };

/* The header of each heap: of 64 MiB, or of memory that the main arena got from the break or from mmap. */
struct heap {
  struct arena *arena;
  struct heap *prev;     /* the heap that was full before this one */
  size_t bytes;          /* readable and writable, from here on */
  size_t reserved_bytes; /* address space; 0: of the main arena */
};

struct arena {
  _Alignas(64) struct lock lock;
  bool by_break; /* the newest heap of the main arena ends at the break */
  /* Lock-free: pushed to by any thread, popped from under the lock only, so that no link can be reused meanwhile. */
  _Atomic bool have_fast;
  struct cached *_Atomic fast[FAST_BINS];
  struct chunk *top; /* the end of the newest heap, in no list; NULL: no heap yet */
  uintptr_t fresh;   /* from here to the end of the newest heap, nothing has been written: all zero */
  struct heap *heap;
  size_t chunk_flag;           /* CHUNK_OTHER_ARENA or 0, in the heads of its chunks */
  _Atomic size_t system_bytes; /* changed under the lock */
  size_t system_bytes_max;
  unsigned number;
  _Atomic unsigned threads; /* attached */
  struct arena *_Atomic next;
  struct bins bins;
};

extern struct arena main_arena HIDDEN;

static inline size_t arena_system_bytes(const struct arena *arena) {
  return atomic_load_explicit(&arena->system_bytes, memory_order_relaxed);
}

static inline void arena_unlock(struct arena *arena) {
  lock_drop(&arena->lock);
}

/* Returns the next arena, in an order that never changes; the first is main_arena. */
static inline struct arena *arena_next(struct arena *arena) {
  return atomic_load_explicit(&arena->next, memory_order_acquire);
}

/* Returns the arena of a chunk that is not mapped. Ends the process if the heap has no arena. */
static inline struct arena *arena_of(struct chunk *chunk, size_t head);
struct arena *arena_of_heap(struct chunk *chunk);

static inline struct arena *arena_of(struct chunk *chunk, size_t head) {
  return LIKELY(!(head & CHUNK_OTHER_ARENA)) ? &main_arena : arena_of_heap(chunk);
}

/* SPDX-License-Identifier: MIT */
/* A chunk: the unit into which heaps are divided, with a boundary tag at its head (Knuth; Lea).

       chunk ->  | prev_bytes   size of the chunk before, only while that one is free; else its last 8 bytes of object
                 | head         own size in bytes, a multiple of 16, and flags in the low four bits
      object ->  | the program's bytes, or while free: links of a list
                 | ...
   next chunk -> | prev_bytes   the last 8 bytes of the object while this chunk is used

   So an object costs 8 bytes beyond its own, at least 32 in total, and both neighbours of a chunk are found in one
   step. Whether a chunk is free is in its successor's head (CHUNK_PREV_USED). Chunks in a tcache or a fast bin count as
   used: they are not coalesced.

   Heads are read by free() without a lock while the flag of a neighbour may change under one: all accesses are relaxed
   atomics, which cost nothing, and a chunk in a heap is changed only under its arena's lock or by the thread to which
   it belongs. */
#pragma once

#include "allocators/common/base.h"

enum {
  CHUNK_ALIGNMENT = OBJECT_ALIGNMENT,
  CHUNK_OVERHEAD = 8, /* bytes of a chunk that the program can't use */
  CHUNK_MIN_BYTES = 32,
  CHUNK_OBJECT_OFFSET = 16,
  FAST_MAX_BYTES = 128, /* largest chunk of a fast bin */
  FAST_BINS = (FAST_MAX_BYTES - CHUNK_MIN_BYTES) / CHUNK_ALIGNMENT + 1,
};

enum {
  CHUNK_PREV_USED = 1,   /* the chunk before is not free: its prev_bytes is the program's */
  CHUNK_MAPPED = 2,      /* its own mapping (heap.h); prev_bytes is its distance from the mapping's start */
  CHUNK_OTHER_ARENA = 4, /* not the main arena's: its heap starts at a multiple of HEAP_BYTES */
  CHUNK_NO_FLAG = 8,     /* never set: a head that has it was overwritten */
  CHUNK_FLAGS = 15,
};

/* Links of a list of free chunks, and of the list's sentinel. */
struct links {
  struct links *next, *prev;
};

struct chunk {
  size_t prev_bytes;
  size_t head;
  struct links links;
  /* Large bins only: the ring of the bin's sizes, through the first chunk of each size. NULL in the other chunks of
     that size. */
  struct chunk *next_size, *prev_size;
};

/* The content of a free object in a tcache or a fast bin. */
struct cached {
  uintptr_t next; /* hidden: see cached_hide */
  uintptr_t key;  /* which kind of list it is in: for the heap walk, and to detect double frees */
};

/* Returns the size of the chunk for an object of object_bytes, at most PTRDIFF_MAX. */
static inline size_t chunk_bytes_for(size_t object_bytes) {
  size_t bytes = (object_bytes + CHUNK_OVERHEAD + CHUNK_ALIGNMENT - 1) & ~(size_t)(CHUNK_ALIGNMENT - 1);
  return bytes < CHUNK_MIN_BYTES ? CHUNK_MIN_BYTES : bytes;
}

static inline struct chunk *chunk_at(const void *base, ptrdiff_t offset) {
  return (struct chunk *)((uintptr_t)base + (uintptr_t)offset);
}

static inline struct chunk *chunk_of(const void *object) {
  return chunk_at(object, -CHUNK_OBJECT_OFFSET);
}

static inline void *chunk_object(struct chunk *chunk) {
  return (char *)chunk + CHUNK_OBJECT_OFFSET;
}

static inline struct chunk *chunk_of_links(struct links *links) {
  return chunk_at(links, -(ptrdiff_t)offsetof(struct chunk, links));
}

static inline size_t chunk_head(const struct chunk *chunk) {
  return __atomic_load_n(&chunk->head, __ATOMIC_RELAXED);
}

static inline void chunk_set_head(struct chunk *chunk, size_t head) {
  __atomic_store_n(&chunk->head, head, __ATOMIC_RELAXED);
}

static inline size_t head_bytes(size_t head) {
  return head & ~(size_t)CHUNK_FLAGS;
}

static inline size_t chunk_bytes(const struct chunk *chunk) {
  return head_bytes(chunk_head(chunk));
}

/* Returns the usable bytes. */
static inline size_t chunk_usable_bytes(const struct chunk *chunk) {
  size_t head = chunk_head(chunk);
  return head_bytes(head) - (head & CHUNK_MAPPED ? CHUNK_OBJECT_OFFSET : CHUNK_OVERHEAD);
}

static inline struct chunk *chunk_next(const struct chunk *chunk) {
  return chunk_at(chunk, (ptrdiff_t)chunk_bytes(chunk));
}

static inline bool chunk_prev_used(const struct chunk *chunk) {
  return chunk_head(chunk) & CHUNK_PREV_USED;
}

static inline void chunk_set_prev_used(struct chunk *chunk) {
  chunk_set_head(chunk, chunk_head(chunk) | CHUNK_PREV_USED);
}

/* Marks [chunk, chunk + bytes) as free in its successor's head. */
static inline void chunk_set_free(struct chunk *chunk, size_t bytes, size_t flags) {
  struct chunk *next = chunk_at(chunk, (ptrdiff_t)bytes);
  chunk_set_head(chunk, bytes | flags);
  next->prev_bytes = bytes;
  chunk_set_head(next, chunk_head(next) & ~(size_t)CHUNK_PREV_USED);
}

/* Safe-linking: a link is stored exclusive-or its own address, without the 12 bits that are the same in every process.
   Overwriting it without knowing the address makes a pointer that is misaligned 15 times out of 16. */
static inline uintptr_t cached_hide(const struct cached *place, const struct cached *next) {
  return (uintptr_t)place >> 12 ^ (uintptr_t)next;
}

/* Atomic: a heap walk of another thread may be reading it. (It also keeps the compiler from first building one vector
   of link and key, which takes two instructions more than two stores.) */
static inline void cached_set_key(struct cached *object, uintptr_t key) {
  __atomic_store_n(&object->key, key, __ATOMIC_RELAXED);
}

static inline struct cached *cached_next(const struct cached *place) {
  return (struct cached *)((uintptr_t)place >> 12 ^ place->next);
}

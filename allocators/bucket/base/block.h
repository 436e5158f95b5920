/* SPDX-License-Identifier: MIT */
/* A block: what the allocator hands out, with a header before the object. The header shows free() where the block
   belongs, as libmtmalloc's does, and has a seal to detect and distinguish an invalid pointer, an overwritten header
   and a second free.

        block ->  | owner   address of the cache, of the oversize block, or of the object that an aligned one lies in;
                  |         its kind in the low two bits
                  | seal    of owner and place while the object lives; the seal's complement once it was freed
       object ->  | the program's bytes, at a multiple of 16

   A header is written by the thread that acquires the object, and by the one that releases it. */
#pragma once

#include "allocators/common/base/basics.h"
#include "allocators/common/base/fault.h"

enum block_kind {
  BLOCK_CACHED,   /* of a cache: cache.h */
  BLOCK_OVERSIZE, /* too large for any cache: oversize.h */
  BLOCK_ALIGNED,  /* an aligned object within another object: aligned.c */
  BLOCK_KIND_MASK = 3,
};

struct block {
  uintptr_t owner, seal;
};

/* Random, so that no program has a seal in its own data by chance. Set once, at startup. */
extern uintptr_t block_secret HIDDEN;

static inline struct block *block_of(const void *object) {
  return (struct block *)((uintptr_t)object - sizeof(struct block));
}

static inline void *block_object(struct block *block) {
  return block + 1;
}

static inline enum block_kind block_kind(const struct block *block) {
  return (enum block_kind)(block->owner & BLOCK_KIND_MASK);
}

static inline void *block_owner(const struct block *block) {
  return (void *)(block->owner & ~(uintptr_t)BLOCK_KIND_MASK);
}

static inline uintptr_t block_seal(const struct block *block) {
  return block->owner ^ (uintptr_t)block ^ block_secret;
}

static inline void block_mark_used(struct block *block, const void *owner, enum block_kind kind) {
  block->owner = (uintptr_t)owner | kind;
  block->seal = block_seal(block);
}

static inline void block_mark_free(struct block *block) {
  block->seal = ~block_seal(block);
}

static inline bool block_is_used(const struct block *block) {
  return block->seal == block_seal(block);
}

static inline bool block_is_free(const struct block *block) {
  return block->seal == ~block_seal(block);
}

/* Ends the process with a message on what is wrong with the object that was passed to this function of the API. */
__attribute__((noreturn, cold)) void block_fault(const char *where, const void *object);

/* Returns the block of a live object; anything else ends the process. */
static inline struct block *block_checked(const char *where, const void *object) {
  struct block *block = block_of(object);
  if (UNLIKELY(!is_aligned(object) || !block_is_used(block)))
    block_fault(where, object);
  return block;
}

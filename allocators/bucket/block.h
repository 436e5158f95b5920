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

#include "allocators/common/base.h"
#include "allocators/common/counters.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum block_kind {
  BLOCK_CACHED,   /* of a cache: buckets.h */
  BLOCK_OVERSIZE, /* too large for any cache: oversize.h */
  BLOCK_ALIGNED,  /* an aligned object within another object: malloc.c */
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

/* The states of blocks in the heap walk and in malloc_info. */

enum state {
  STATE_USED,
  STATE_CACHED,   /* free, in a cache */
  STATE_UNUSED,   /* of a cache, never handed out yet */
  STATE_OVERSIZE, /* free, in the tree of oversize blocks */
  STATES
};

/* The three kinds of lock, each counted separately: of a bucket ("parent"), of a cache, of the oversize blocks. */

enum { CACHE_LOCK_MUTEX, CACHE_LOCK_ATOMIC }; /* the tunable cache_lock */

/* kind: parent, cache or oversize. */
#define LOCK_TAKE_AS(kind, lock)                                                                                       \
  do {                                                                                                                 \
    if (!threads_may_run())                                                                                            \
      break;                                                                                                           \
    COUNT(kind##_locks);                                                                                               \
    if (!lock_try(lock)) {                                                                                             \
      COUNT(kind##_locks_contended);                                                                                   \
      lock_await(lock);                                                                                                \
    }                                                                                                                  \
  } while (0)

/* Memory of the operating system: mapped, purged, and counted. */

/* Maps bytes, a multiple of an OS page, all zero. NULL: no memory. Leaves errno to its callers. */
void *system_map(size_t bytes);

/* Gives OS pages back; they read as zeros afterwards. Returns whether the kernel took them. */
bool system_purge(void *start, size_t bytes);

/* Returns all bytes that were mapped. */
size_t system_bytes(void);

/* Returns memory for the allocator's own tables, all zero, in steps of 64 bytes, never given back. NULL: none. */
void *system_own(size_t bytes);

/* Held around a fork. */
extern struct lock memory_lock HIDDEN;

/* Numbers of threads: each living thread that has allocated has one, the lowest that was free; numbers of ended threads
   are reused. Beyond NUMBERS live threads at a time, further numbers are assigned in sequence and never reused.

   Solaris numbers all threads, from 1 on, and reuses no number: a program whose threads come and go would soon have no
   thread that owns a bucket. */

enum { NUMBERS = 4096, NO_NUMBER = -1 };

int number_take(void);
void number_give_back(int number);

/* Held around a fork. */
extern struct lock numbers_lock HIDDEN;

/* In a fork's child: `mine` is the only thread's number, or NO_NUMBER. Needs the lock. */
void numbers_keep(int mine);

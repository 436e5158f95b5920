/* SPDX-License-Identifier: MIT */
/* What each thread has: its arena and its cache, a list of objects per size; and how objects get into such a list.

   Not its job: when a cache is made, filled and emptied (tcache.h), which arena a thread gets (arenas.h). */
#pragma once

#include "allocators/common/base/fault.h"
#include "allocators/common/tunables.h"
#include "allocators/reference/base/chunk.h"
#include "core/base/assert.h"

struct arena;

struct tcache_bin {
  struct cached *first;
  uint32_t room;   /* objects that may be added */
  uint32_t refill; /* objects that the next miss may split off ahead: doubles with a miss, so that a size that is
                      requested once costs no memory, and is halved when the bin is full */
};

struct tcache {
  size_t inline_limit_bytes; /* the inlined path of malloc takes requests below this */
  size_t inline_chunk_bytes; /* the inlined path of free takes chunks whose size minus the smallest is below this */
  size_t bin_count;
  struct tcache_bin bins[];
};

/* The data of the calling thread. */
struct thread {
  struct tcache *cache;
  struct arena *arena;
  unsigned contended; /* consecutive lock acquisitions that had to wait */
  bool ended;         /* the thread's destructors are running: no more cache */
};

extern __thread struct thread thread __attribute__((tls_model("initial-exec"))) HIDDEN;
extern struct tcache no_cache HIDDEN;

/* Keys of the objects in any tcache and any fast bin: random, so that a program's data does not contain them by chance.
   Odd, so that they are never a pointer. */
extern uintptr_t tcache_key HIDDEN, fast_key HIDDEN;

/* Takes the object that was put in last, or NULL. */
static inline struct cached *tcache_pop(struct tcache_bin *bin) {
  struct cached *object = bin->first;
  if (LIKELY(object != NULL)) {
    struct cached *next = cached_next(object);
    if (UNLIKELY(!is_aligned(next)))
      fault("malloc", "corrupt link in a tcache", object);
    bin->first = next;
    bin->room++;
    object->key = 0;
  }
  return object;
}

/* Puts an object in. There must be room. */
static inline void tcache_push(struct tcache_bin *bin, struct cached *object) {
  HT_ASSERT(bin->room > 0);
  cached_set_key(object, tcache_key);
  object->next = cached_hide(object, bin->first);
  bin->first = object;
  bin->room--;
}

/* Returns how many objects to put into a bin at once besides the one that a miss hands out: up to half the bin's size,
   as frees should find room, too. More would cost locality, as objects that are requested one after another are then
   apart. This was only counted: earlier, noisy comparisons of cycles at 7 instead of 3 had a replay of CPython's json
   15 % slower, of perl's hashes 20 %, and were not repeated. */
static inline uint32_t tcache_refill_count(const struct tcache_bin *bin) {
  uint32_t half = (uint32_t)tunables.tcache_count / 2;
  return bin->room < half ? bin->room : half;
}

/* Call before anything else here. */
void thread_setup(void);

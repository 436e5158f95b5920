/* The cache of each thread: per chunk size, a short list of objects that were freed and count as used for everybody
   else. Taking one and putting one back needs no lock and a dozen instructions (after Bonwick's magazines).

   A thread without a cache has `no_cache`, which is empty and has no room, so the paths of malloc and free that are
   inlined there need no test for it. Two limits are kept apart: what the cache serves, and what it serves inline. The
   latter is nothing where calls must be counted or objects filled (tunables stats, perturb): those paths are in
   malloc_slow and free_slow only, and cost nothing where they are off. */
#ifndef ALLOCATORS_REFERENCE_TCACHE_H
#define ALLOCATORS_REFERENCE_TCACHE_H

#include "allocators/reference/chunk.h"
#include "allocators/reference/fault.h"
#include "allocators/reference/tunables.h"

struct arena;

struct tcache_bin {
  struct cached *first;
  uint32_t room;   /* objects that may be added */
  uint32_t refill; /* objects that the next miss may split off ahead: doubles with a miss, so that a size that is asked
                      for once costs no memory, and is halved when the bin is full */
};

struct tcache {
  size_t inline_limit_bytes; /* the inlined path of malloc takes requests below this */
  size_t inline_bins;        /* bins of the inlined path of free */
  size_t bin_count;
  struct tcache_bin bins[];
};

/* Of the calling thread. */
struct thread {
  struct tcache *cache;
  struct arena *arena;
  unsigned contended; /* lock acquisitions in a row that had to wait */
  bool ended;         /* the thread's destructors are running: no cache any more */
};

extern __thread struct thread thread __attribute__((tls_model("initial-exec")));
extern struct tcache no_cache;

/* Keys of the objects in any tcache and any fast bin: random, so that a program has them in its own data by no chance.
   Odd, so that they are never a pointer. */
extern uintptr_t tcache_key, fast_key;

/* Number of the bin for a chunk, and for a request of at most PTRDIFF_MAX bytes. */
static inline size_t tcache_number(size_t chunk_bytes) {
  return chunk_bytes / CHUNK_ALIGNMENT - CHUNK_MIN_BYTES / CHUNK_ALIGNMENT;
}

static inline size_t tcache_number_for(size_t object_bytes) {
  /* 0 to 24 bytes: 0; 25 to 40: 1. */
  size_t bytes = object_bytes < 24 ? 24 : object_bytes;
  return (bytes - 9) / CHUNK_ALIGNMENT;
}

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

/* There must be room. */
static inline void tcache_push(struct tcache_bin *bin, struct cached *object) {
  object->key = tcache_key;
  object->next = cached_hide(object, bin->first);
  bin->first = object;
  bin->room--;
}

/* Gives the calling thread a cache if it may have one: where thread.cache is no_cache. Returns thread.cache. */
struct tcache *tcache_make(void);

/* The calling thread's bin for chunks of that many bytes; makes the cache if there is none yet. NULL: no such bin. */
static inline struct tcache_bin *tcache_bin_for(size_t chunk_bytes) {
  struct tcache *cache = thread.cache;
  size_t number = tcache_number(chunk_bytes);
  if (UNLIKELY(cache == &no_cache)) {
    if (!tunables.tcache)
      return NULL;
    cache = tcache_make();
  }
  return LIKELY(number < cache->bin_count) ? &cache->bins[number] : NULL;
}

/* How many objects to put into a bin at once beside the one that a miss hands out: to half its size, as frees should
   find room too. More than these few at a time cost locality: objects that are asked for one after another lie apart
   then (all 7: a replay of CPython's json took about 15 % more cycles, one of perl's hashes 20 %). */
static inline uint32_t tcache_refill_count(const struct tcache_bin *bin) {
  uint32_t half = (uint32_t)tunables.tcache_count / 2;
  return bin->room < half ? bin->room : half;
}

/* Gives back all objects but the keep that were put in last. Takes arenas' locks. */
void tcache_flush(struct tcache_bin *bin, uint32_t keep);

/* Ends the process if the object is in this bin: it has the key of one. */
void tcache_check_double_free(const struct tcache_bin *bin, const struct cached *object);

/* Registers the calling thread's end, if it was not yet. */
void tcache_watch_thread(void);

/* Before the first call of anything else here. */
void tcache_setup(void);

#endif

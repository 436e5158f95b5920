/* SPDX-License-Identifier: MIT */
#include "allocators/magazine/depot.h"

#include "allocators/common/lock.h"
#include "allocators/magazine/zone/class.h"
#include "allocators/magazine/zone/slab.h"

enum {
  CONTENDED_LIMIT = 16, /* times that a depot's lock is found taken before its magazines grow */
  GROWN_BYTES_MAX = SMALL_MAX_BYTES,
};

struct depot {
  _Alignas(64) struct lock lock;
  uint32_t rounds; /* size of new magazines */
  uint32_t full_count, contended;
  struct magazine *full, *empty;
};

struct magazine no_magazine;
static struct depot depots[CLASSES];

static size_t magazine_bytes(uint32_t rounds) {
  return sizeof(struct magazine) + rounds * sizeof(struct freed *);
}

static uint32_t rounds_max(void) {
  return (GROWN_BYTES_MAX - sizeof(struct magazine)) / sizeof(struct freed *);
}

void depot_setup(void) {
  for (unsigned number = 0; number < CLASSES; number++) {
    size_t rounds = tunables.magazine_size, most = tunables.magazine_bytes / class_bytes[number];
    if (rounds > most)
      rounds = most < 2 ? 2 : most;
    depots[number].rounds = (uint32_t)(rounds < rounds_max() ? rounds : rounds_max());
  }
}

/* Magazines are allocated from the slabs directly, not from other magazines. */
static struct magazine *make(uint32_t rounds) {
  unsigned number = class_for(magazine_bytes(rounds));
  struct magazine *magazine = (struct magazine *)slab_take(slab_lock(number));
  slab_unlock(number);
  if (!magazine)
    return NULL;
  magazine->next = NULL;
  magazine->rounds = 0;
  magazine->capacity = rounds;
  return magazine;
}

static void unmake(struct magazine *magazine) {
  if (magazine == &no_magazine)
    return;
  unsigned number = class_for(magazine_bytes(magazine->capacity));
  slab_give(slab_lock(number), (struct freed *)magazine);
  slab_unlock(number);
}

/* Gives a magazine's objects to the slabs. */
static void drain(unsigned number, struct magazine *magazine) {
  if (magazine->rounds == 0)
    return;
  struct slab *slab = slab_lock(number);
  COUNT_MANY(slab_frees, magazine->rounds);
  while (magazine->rounds > 0)
    slab_give(slab, magazine->objects[--magazine->rounds]);
  slab_unlock(number);
}

static struct depot *lock_counted(unsigned number) {
  struct depot *depot = &depots[number];
  if (LIKELY(lock_try(&depot->lock)))
    return depot;
  COUNT(depot_contended);
  lock_take(&depot->lock);
  if (tunables.magazine_grow && ++depot->contended >= CONTENDED_LIMIT) {
    depot->contended = 0;
    depot->rounds = depot->rounds < rounds_max() / 2 ? 2 * depot->rounds : rounds_max();
  }
  return depot;
}

/* Keeps an empty magazine unless it is smaller than new ones are: then the caller unmakes it. Needs the lock. */
static bool keep_empty(struct depot *depot, struct magazine *magazine) {
  if (magazine->capacity != depot->rounds)
    return false;
  magazine->next = depot->empty;
  depot->empty = magazine;
  return true;
}

struct magazine *depot_take_full(unsigned number, struct magazine *empty) {
  struct depot *depot = lock_counted(number);
  struct magazine *full = depot->full;
  bool kept = true;
  if (full) {
    depot->full = full->next;
    depot->full_count--;
    kept = keep_empty(depot, empty);
  }
  lock_drop(&depot->lock);
  if (full && !kept)
    unmake(empty);
  return full;
}

/* Returns whether the depot keeps it. Needs the lock. */
static bool keep_full(struct depot *depot, struct magazine *magazine) {
  if (magazine->rounds == 0 || depot->full_count >= tunables.depot_size)
    return false;
  COUNT(depot_frees);
  magazine->next = depot->full;
  depot->full = magazine;
  depot->full_count++;
  return true;
}

struct magazine *depot_take_empty(unsigned number, struct magazine *full) {
  struct depot *depot = lock_counted(number);
  uint32_t rounds = depot->rounds;
  bool kept = keep_full(depot, full);
  bool reuse = !kept && full->capacity == rounds;
  struct magazine *empty = NULL;
  if (!reuse && (empty = depot->empty))
    depot->empty = empty->next;
  lock_drop(&depot->lock);
  if (!kept)
    drain(number, full);
  if (reuse)
    return full;
  if (!kept)
    unmake(full);
  return empty ? empty : make(rounds);
}

void depot_give(unsigned number, struct magazine *magazine) {
  if (magazine == &no_magazine)
    return;
  struct depot *depot = lock_counted(number);
  bool kept = magazine->rounds == magazine->capacity ? keep_full(depot, magazine) : false;
  lock_drop(&depot->lock);
  if (kept)
    return;
  drain(number, magazine);
  unmake(magazine);
}

void depot_trim(unsigned number) {
  struct depot *depot = lock_counted(number);
  struct magazine *full = depot->full, *empty = depot->empty, *next;
  depot->full = depot->empty = NULL;
  depot->full_count = 0;
  lock_drop(&depot->lock);
  for (struct magazine *magazine = full; magazine; magazine = next) {
    next = magazine->next;
    drain(number, magazine);
    unmake(magazine);
  }
  for (struct magazine *magazine = empty; magazine; magazine = next) {
    next = magazine->next;
    unmake(magazine);
  }
}

void depot_lock(unsigned number) {
  lock_take(&depots[number].lock);
}

void depot_unlock(unsigned number) {
  lock_drop(&depots[number].lock);
}

void depot_after_fork(unsigned number) {
  lock_reset(&depots[number].lock);
}

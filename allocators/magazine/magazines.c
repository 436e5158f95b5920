/* SPDX-License-Identifier: MIT */
#include "allocators/magazine/magazines.h"

#include "allocators/common/base.h"
#include "allocators/common/counters.h"
#include "allocators/common/entry.h"
#include "allocators/magazine/slab.h"
#include "allocators/magazine/zones.h"

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

/* Takes a full magazine in exchange for an empty one, or no_magazine. NULL: there is none, and nothing changed. */
static struct magazine *depot_take_full(unsigned number, struct magazine *empty) {
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

/* Takes an empty magazine in exchange for a full one, or no_magazine; NULL: no memory, nothing changed. */
static struct magazine *depot_take_empty(unsigned number, struct magazine *full) {
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

/* Gives the depot a magazine that a thread no longer uses, whatever its content. */
static void depot_give(unsigned number, struct magazine *magazine) {
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

struct zone *check_object(const char *where, const void *object) {
  struct zone *zone = zone_of(object);
  if (UNLIKELY(!is_aligned(object)))
    fault(where, "invalid pointer: not a multiple of 16", object);
  if (UNLIKELY(!started || !zone_is_in_use(zone)))
    fault(where, "invalid pointer, double free of a large object, or overwritten header of a zone", object);
  if (UNLIKELY(!zone_has_object_at(zone, object)))
    fault(where, "invalid pointer: no object begins there", object);
  if (zone->size_bytes == 0)
    return zone;
  uintptr_t key = ((const struct freed *)object)->key;
  if (UNLIKELY(key == key_of(object, magazine_secret)))
    fault(where, "the object is free already: in a magazine", object);
  if (UNLIKELY(key == key_of(object, slab_secret)))
    fault(where, "the object is free already: in its zone", object);
  return zone;
}

enum { FILL_BYTES_MAX = 4096 /* to take ahead from a slab: an OS page, for any size */ };

#define EMPTY                                                                                                          \
  { &no_magazine, &no_magazine, &no_magazine, 0 }
#define EMPTY_8 EMPTY, EMPTY, EMPTY, EMPTY, EMPTY, EMPTY, EMPTY, EMPTY
__thread struct cache cache = {
    .slots = {EMPTY_8, EMPTY_8, EMPTY_8, EMPTY_8, EMPTY_8, EMPTY_8, EMPTY_8, EMPTY},
};
_Static_assert(CLASSES == 7 * 8, "one for each class, and one");

static void load(struct slot *slot, struct magazine *magazine) {
  slot->loaded = magazine;
  slot->inlined = tunables.stats ? &no_magazine : magazine;
}

void cache_empty(void) {
  for (unsigned number = 0; number < CLASSES; number++) {
    struct slot *slot = &cache.slots[number];
    struct magazine *loaded = slot->loaded, *previous = slot->previous;
    load(slot, &no_magazine);
    slot->previous = &no_magazine;
    depot_give(number, loaded);
    depot_give(number, previous);
  }
}

static void on_thread_end(void *unused) {
  (void)unused;
  cache.ended = true;
  cache_empty();
  if (tunables.stats)
    counters_end_thread();
}

void cache_setup(void) {
  uintptr_t words[2];
  secret_words(words);
  zone_secret = words[0];
  magazine_secret = words[1];
  slab_secret = words[0] ^ words[1] << 1;
  thread_end_setup(on_thread_end);
}

static bool may_have_magazines(void) {
  if (UNLIKELY(cache.ended))
    return false;
  if (UNLIKELY(!cache.watched)) {
    cache.watched = true;
    thread_end_watch(); /* may call calloc, which does not come here again */
  }
  return LIKELY(tunables.magazines);
}

static void push(struct magazine *magazine, struct freed *object) {
  object->key = key_of(object, magazine_secret);
  magazine->objects[magazine->rounds++] = object;
}

static struct freed *pop(struct magazine *magazine) {
  struct freed *object = magazine->objects[--magazine->rounds];
  if (UNLIKELY(object->key != key_of(object, magazine_secret)))
    fault("malloc", "an object was written after it was freed", object);
  return object;
}

static void exchange(struct slot *slot) {
  struct magazine *previous = slot->previous;
  slot->previous = slot->loaded;
  load(slot, previous);
  COUNT(exchanges);
}

/* Takes an object from the slabs, and some more into the loaded magazine, which is empty. */
static struct freed *take_from_slab(struct slot *slot, unsigned number) {
  uint32_t room = slot->loaded->capacity / 2, most = FILL_BYTES_MAX / class_bytes[number];
  uint32_t count = slot->fill < room ? slot->fill : room;
  count = count < most ? count : most;
  slot->fill = 2 * count + 1;
  struct slab *slab = slab_lock(number);
  struct freed *taken = slab_take(slab), *more;
  COUNT(slab_hits);
  for (uint32_t index = 0; taken && index < count && (more = slab_take(slab)); index++) {
    push(slot->loaded, more);
    COUNT(slab_filled);
  }
  slab_unlock(number);
  return taken;
}

struct freed *cache_take(unsigned number) {
  struct slot *slot = &cache.slots[number];
  if (!may_have_magazines())
    return take_from_slab(slot, number);
  if (slot->loaded->rounds == 0 && slot->previous->rounds > 0)
    exchange(slot);
  if (slot->loaded->rounds == 0) {
    bool two = tunables.previous;
    struct magazine *full = depot_take_full(number, two ? slot->previous : slot->loaded);
    if (full) {
      COUNT(depot_hits);
      if (two)
        slot->previous = slot->loaded;
      load(slot, full);
    } else {
      COUNT(depot_misses);
      if (slot->loaded == &no_magazine && slot->fill > 0) {
        struct magazine *empty = depot_take_empty(number, &no_magazine);
        if (empty)
          load(slot, empty);
      }
      return take_from_slab(slot, number);
    }
  }
  COUNT(magazine_hits);
  return pop(slot->loaded);
}

static void give_to_slab(unsigned number, struct freed *object) {
  COUNT(slab_frees);
  struct slab *slab = slab_lock(number);
  slab_give(slab, object);
  slab_unlock(number);
}

void cache_give(unsigned number, struct freed *object) {
  struct slot *slot = &cache.slots[number];
  if (!may_have_magazines()) {
    give_to_slab(number, object);
    return;
  }
  if (slot->loaded->rounds == slot->loaded->capacity && slot->previous->rounds < slot->previous->capacity)
    exchange(slot);
  if (slot->loaded->rounds == slot->loaded->capacity) {
    bool two = tunables.previous;
    struct magazine *empty = depot_take_empty(number, two ? slot->previous : slot->loaded);
    if (!empty) { /* no memory for a magazine, and one has gone to the depot */
      *(two ? &slot->previous : &slot->loaded) = &no_magazine;
      load(slot, slot->loaded);
      give_to_slab(number, object);
      return;
    }
    if (two)
      slot->previous = slot->loaded;
    load(slot, empty);
  }
  COUNT(magazine_frees);
  push(slot->loaded, object);
}

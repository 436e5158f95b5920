/* SPDX-License-Identifier: MIT */
#include "allocators/magazine/cache.h"

#include "allocators/common/base/fault.h"
#include "allocators/common/base/secret.h"
#include "allocators/common/counters.h"
#include "allocators/common/thread_end.h"
#include "allocators/magazine/depot.h"
#include "allocators/magazine/zone/slab.h"

enum { FILL_BYTES_MAX = 4096 /* to take ahead from a slab: an OS page, for any size */ };

#define EMPTY                                                                                                          \
  { &no_magazine, &no_magazine, &no_magazine, 0 }
#define EMPTY_8 EMPTY, EMPTY, EMPTY, EMPTY, EMPTY, EMPTY, EMPTY, EMPTY
__thread struct cache cache = {
    .slots = {EMPTY_8, EMPTY_8, EMPTY_8, EMPTY_8, EMPTY_8, EMPTY_8, EMPTY_8, EMPTY},
};
_Static_assert(CLASSES == 7 * 8, "one for each class, and one");
uintptr_t zone_secret, magazine_secret, slab_secret;

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

/* SPDX-License-Identifier: MIT */
/* free, from entry to return, in the order of an object's steps:

     free               the thread's loaded magazine of its size class has room: done
     free_slow          any inconsistency ends the process
     cache_give (cache.c)
                        loaded and previous magazine change places; or
       depot_take_empty   the depot of the class gives an empty magazine for a full one, or drains the full one
       slab_give          into its zone; a zone in which nothing is used goes to the zone magazine
     large_release (zone/large.c)
                        a large one: its run of zones is kept, or unmapped */
#include "allocators/common/base/fault.h"
#include "allocators/common/calls/arguments.h"
#include "allocators/common/startup.h"
#include "allocators/magazine/cache.h"
#include "allocators/magazine/check.h"
#include "allocators/magazine/zone/large.h"

static void free_slow(void *object);

void allocator_free(void *object) {
  if (UNLIKELY(!object))
    return;
  struct freed *freed = object;
  const struct zone *zone = zone_of(object);
  uintptr_t key = key_of(object, magazine_secret);
  if (LIKELY(zone_is_in_use(zone) && zone_has_object_at(zone, object) && freed->key != key)) {
    struct magazine *magazine = cache.slots[zone->number].inlined;
    uint32_t rounds = magazine->rounds;
    if (LIKELY(rounds < magazine->capacity)) {
      freed->key = key;
      magazine->objects[rounds] = freed;
      magazine->rounds = rounds + 1;
      return;
    }
  }
  free_slow(object);
}

static __attribute__((noinline)) void free_slow(void *object) {
  struct zone *zone = check_object("free", object);
  if (zone->number == CLASS_LARGE)
    large_release(zone);
  else
    cache_give(zone->number, object);
}

PUBLIC_NAME(void, free, (void *object), allocator_free);
PUBLIC_NAME(void, cfree, (void *object), allocator_free);

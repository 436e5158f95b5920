/* SPDX-License-Identifier: MIT */
/* malloc and calloc, from entry to return, in the order of a request's steps:

     malloc             the thread's loaded magazine has an object of that size class: done
     malloc_slow        it has none, or the request is large
     cache_take (cache.c)
                        previous magazine and loaded change places; or
       depot_take_full    the depot of the class has a full magazine for an empty one; or
       slab_take          the slabs of the class: an object that was given back, a fresh one, or
       zones_take         a zone from the zone magazine, which maps some more when it is empty
     large_take (zone/large.c)
                        more than SMALL_MAX_BYTES: its own run of zones

   Freeing is in free.c. */
#include "allocators/common/base/fault.h"
#include "allocators/common/calls/arguments.h"
#include "allocators/common/startup.h"
#include "allocators/magazine/cache.h"
#include "allocators/magazine/zone/large.h"

static void *malloc_slow(size_t object_bytes, bool *zeroed);

/* Takes an object of the loaded magazine, or returns NULL. A write to it while it was free has changed its key. */
static inline void *take_loaded(size_t object_bytes) {
  struct magazine *magazine = cache.slots[class_for(object_bytes)].inlined;
  uint32_t rounds = magazine->rounds;
  if (UNLIKELY(rounds == 0))
    return NULL;
  struct freed *object = magazine->objects[rounds - 1];
  if (UNLIKELY(object->key != key_of(object, magazine_secret)))
    fault("malloc", "an object was written after it was freed", object);
  magazine->rounds = rounds - 1;
  object->key = 0;
  return object;
}

void *allocator_malloc(size_t object_bytes) {
  if (LIKELY(object_bytes <= SMALL_MAX_BYTES)) {
    void *object = take_loaded(object_bytes);
    if (LIKELY(object != NULL))
      return object;
  }
  bool zeroed;
  return malloc_slow(object_bytes, &zeroed);
}

/* *zeroed: whether the object is zero already. */
static __attribute__((noinline)) void *malloc_slow(size_t object_bytes, bool *zeroed) {
  startup();
  if (size_is_too_large(object_bytes))
    return NULL;
  struct freed *object;
  if (object_bytes <= SMALL_MAX_BYTES) {
    *zeroed = false;
    object = cache_take(class_for(object_bytes));
    if (LIKELY(object != NULL))
      object->key = 0;
  } else {
    object = large_take(object_bytes, OBJECT_ALIGNMENT, zeroed);
  }
  if (UNLIKELY(!object))
    errno = ENOMEM;
  return object;
}

void *allocator_calloc(size_t count, size_t element_bytes) {
  size_t object_bytes;
  if (!array_bytes(count, element_bytes, &object_bytes))
    return NULL;
  void *object = NULL;
  bool zeroed = false;
  if (LIKELY(object_bytes <= SMALL_MAX_BYTES))
    object = take_loaded(object_bytes);
  if (UNLIKELY(!object))
    object = malloc_slow(object_bytes, &zeroed);
  return !object || zeroed ? object : memset(object, 0, object_bytes);
}

PUBLIC_NAME(void *, malloc, (size_t object_bytes), allocator_malloc);
PUBLIC_NAME(void *, calloc, (size_t count, size_t element_bytes), allocator_calloc);

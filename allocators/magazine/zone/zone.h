/* SPDX-License-Identifier: MIT */
/* A zone: 64 KiB of address space at a multiple of 64 KiB, which begins with this header. So a mask finds an object's
   zone, and the zone shows what the object is:

     a slab     objects of one size class, side by side from `first` on
     a large object's first zone: one object at `first`, in a run of one or more zones

   Fields that free() reads without a lock are set before the first object is handed out, and have their own cache line.
   The other fields change under the lock of the size class. */
#pragma once

#include "allocators/common/base/basics.h"

enum {
  ZONE_BYTES = 64 << 10,
  ZONE_HEADER_BYTES = 128,
  SMALL_MAX_BYTES = 8192, /* the largest object of a slab */
  CLASSES = 56,
  CLASS_LARGE = CLASSES, /* the number of a large object's zone */
};

/* The content of a free object. */
struct freed {
  uintptr_t next; /* in a slab's list: hidden (slab.c) */
  uintptr_t key;  /* where it is free: for the heap walk, and to detect double frees and writes after free */
};

struct zone {
  uintptr_t check;     /* zone_check(): a zone in use begins here */
  uint32_t first;      /* bytes from here to the first object */
  uint32_t size_bytes; /* of each object; 0: large */
  uint64_t reciprocal; /* 2^32 / size_bytes, rounded up; 0: large */
  uint32_t number;     /* of the size class, or CLASS_LARGE */
  uint32_t capacity;   /* objects */

  _Alignas(64) struct zone *next; /* in a list of the class, or of runs */
  struct zone *prev;
  struct freed *free;  /* list of objects given back */
  uint32_t used;       /* objects not in the slab: with the program or in magazines */
  uint32_t fresh;      /* number of the first object that was never handed out */
  size_t dirty_bytes;  /* bytes from here on were never written: they are zero */
  size_t object_bytes; /* large: usable size */
  size_t run_bytes;    /* large: address space, from the header on */
};
_Static_assert(sizeof(struct zone) <= ZONE_HEADER_BYTES, "objects begin behind it");

/* Words that differ from process to process: of zones in use, of objects in a magazine, of objects in a slab. */
extern uintptr_t zone_secret HIDDEN, magazine_secret HIDDEN, slab_secret HIDDEN;

static inline uintptr_t key_of(const void *object, uintptr_t secret) {
  return secret ^ (uintptr_t)object;
}

/* A large object at a multiple of 64 KiB has its header in the zone before. */
static inline struct zone *zone_of(const void *object) {
  return (struct zone *)(((uintptr_t)object - 1) & ~(uintptr_t)(ZONE_BYTES - 1));
}

/* Returns whether the zone is in use: nothing else begins with this value. */
static inline bool zone_is_in_use(const struct zone *zone) {
  return zone->check == key_of(zone, zone_secret);
}

static inline void *zone_object(const struct zone *zone, uint32_t index) {
  return (char *)(uintptr_t)zone + zone->first + (size_t)index * zone->size_bytes;
}

/* Returns whether an object begins there. Exact, because the offset of an object that does has 17 bits. */
static inline bool zone_has_object_at(const struct zone *zone, const void *object) {
  uint32_t offset = (uint32_t)((uintptr_t)object - (uintptr_t)zone) - zone->first;
  uint32_t index = (uint32_t)(offset * zone->reciprocal >> 32);
  return index < zone->capacity && index * zone->size_bytes == offset;
}

/* SPDX-License-Identifier: MIT */
/* A zone: 64 KiB of address space at a multiple of 64 KiB, which begins with this header. So a mask finds an object's
   zone, and the zone shows what the object is:

     a slab     objects of one size class, side by side from `first` on
     a large object's first zone: one object at `first`, in a run of one or more zones

   Fields that free() reads without a lock are set before the first object is handed out, and have their own cache line.
   The other fields change under the lock of the size class. */
#pragma once

#include "allocators/common/base.h"

#include <stddef.h>

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

/* Size classes: multiples of 16 up to 128 bytes, then eight per doubling, up to SMALL_MAX_BYTES. */

enum { CLASS_STEP_BYTES = 16, CLASS_ALIGNMENT_MAX = 4096 };

/* class_numbers[n]: number of the class for n * 16 bytes. */
extern uint8_t class_numbers[SMALL_MAX_BYTES / CLASS_STEP_BYTES + 1] HIDDEN;
extern uint32_t class_bytes[CLASSES] HIDDEN;

/* object_bytes: at most SMALL_MAX_BYTES. */
static inline unsigned class_for(size_t object_bytes) {
  return class_numbers[(object_bytes + CLASS_STEP_BYTES - 1) / CLASS_STEP_BYTES];
}

/* All objects of the class are at multiples of this: a power of two. */
static inline uint32_t class_alignment(unsigned number) {
  uint32_t power = class_bytes[number] & -class_bytes[number];
  return power < CLASS_ALIGNMENT_MAX ? power : CLASS_ALIGNMENT_MAX;
}

/* Call before anything else here. */
void class_setup(void);

/* Address space from the system, in whole zones. Safe from any thread; errno is undefined afterwards. */

/* Returns zeroed memory, lead_bytes before a multiple of alignment (a power of two, at least ZONE_BYTES). bytes: a
   multiple of ZONE_BYTES. NULL: none. */
void *system_map(size_t bytes, size_t alignment, size_t lead_bytes);

void system_unmap(void *memory, size_t bytes);

/* Gives the OS pages of that memory back; it is zero then. */
void system_purge(void *memory, size_t bytes);

/* Moves the OS pages of a mapping to a larger one from system_map, whose own are lost. False: nothing happened. */
int system_move(void *from, size_t from_bytes, void *to, size_t to_bytes);

/* Free runs of zones: from freed large objects, kept for the next ones. */

/* Returns the smallest kept run of at least bytes that is not much larger; NULL: there is none. Its header has
   run_bytes and dirty_bytes. */
struct zone *runs_take(size_t bytes);

/* Keeps a run, or unmaps it if run_cache bytes are already kept. Keeps errno. */
void runs_give(struct zone *run);

/* Unmaps all kept runs. Returns whether there were any. */
bool runs_trim(void);

/* Calls visit for each kept run, under the lock. */
void runs_walk(void (*visit)(const struct zone *run, void *context), void *context);

/* Held around a fork. */
extern struct lock runs_lock HIDDEN;

/* The zone magazine, in front of mmap: free zones of any former use.

   When it is empty, several zones are mapped at once (a burst), fewer with each burst: a starting program soon requests
   many. When it is full, it is emptied down to a low mark. Before mmap is used, a free run of zones that was kept for
   large objects is divided. */

/* Returns a zone; of its header, only dirty_bytes is set. NULL: no memory. */
struct zone *zones_take(void);

/* Takes a zone back; nothing in it may be used, and its dirty_bytes must be right. */
void zones_give(struct zone *zone);

/* For a zone or run whose start is used again: gives back the OS pages from from_bytes on, if that is worth a call. */
void zone_purge(struct zone *zone, size_t from_bytes);

/* Unmaps all kept zones. Returns whether there were any. */
bool zones_trim(void);

/* Returns the bytes of all zones that are mapped and not part of a longer run, and their maximum so far. */
size_t zones_mapped_bytes(size_t *most);

/* Calls visit for each kept zone, under the lock. */
void zones_walk(void (*visit)(const struct zone *zone, void *context), void *context);

/* Held around a fork. */
extern struct lock zones_lock HIDDEN;

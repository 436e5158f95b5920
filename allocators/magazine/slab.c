/* SPDX-License-Identifier: MIT */
#include "allocators/magazine/slab.h"

#include "allocators/common/base.h"
#include "allocators/common/counters.h"
#include "allocators/common/entry.h"
#include "allocators/magazine/zones.h"

#include <errno.h>

struct slab {
  _Alignas(64) struct lock lock;
  struct zone *partial; /* zones with room: the first is the current one */
  struct zone *last;    /* of them */
  struct zone *full;
};

enum { FEW_BYTES = 8192 };

static struct slab slabs[CLASSES];

static unsigned number_of(const struct slab *slab) {
  return (unsigned)(slab - slabs);
}

struct slab *slab_lock(unsigned number) {
  lock_take(&slabs[number].lock);
  return &slabs[number];
}

void slab_unlock(unsigned number) {
  lock_drop(&slabs[number].lock);
}

/* Adds a zone at the end: the current zone stays current until it is full. */
static void add_partial(struct slab *slab, struct zone *zone) {
  zone->next = NULL;
  zone->prev = slab->last;
  *(slab->last ? &slab->last->next : &slab->partial) = zone;
  slab->last = zone;
}

static void remove_partial(struct slab *slab, struct zone *zone) {
  *(zone->prev ? &zone->prev->next : &slab->partial) = zone->next;
  *(zone->next ? &zone->next->prev : &slab->last) = zone->prev;
}

static void add_full(struct slab *slab, struct zone *zone) {
  zone->next = slab->full;
  zone->prev = NULL;
  if (slab->full)
    slab->full->prev = zone;
  slab->full = zone;
}

static void remove_full(struct slab *slab, struct zone *zone) {
  *(zone->prev ? &zone->prev->next : &slab->full) = zone->next;
  if (zone->next)
    zone->next->prev = zone->prev;
}

static struct zone *new_zone(struct slab *slab) {
  struct zone *zone = zones_take();
  if (!zone)
    return NULL;
  unsigned number = number_of(slab);
  uint32_t bytes = class_bytes[number], alignment = class_alignment(number);
  zone->first = alignment < ZONE_HEADER_BYTES ? ZONE_HEADER_BYTES : alignment;
  zone->size_bytes = bytes;
  zone->reciprocal = (((uint64_t)1 << 32) + bytes - 1) / bytes;
  zone->number = number;
  zone->capacity = (ZONE_BYTES - zone->first) / bytes;
  zone->free = NULL;
  zone->used = 0;
  zone->fresh = 0;
  zone->check = key_of(zone, zone_secret);
  if (!slab->full) /* few objects of this size: the zone may never be filled */
    zone_purge(zone, zone->first + FEW_BYTES);
  add_partial(slab, zone);
  return zone;
}

/* Safe-linking: a link is stored exclusive-or its own address, without the 12 bits that are the same in every process.
   Overwriting it without knowing the address makes a pointer to where no object of the zone begins. */
static uintptr_t hide(const struct freed *place, const struct freed *next) {
  return (uintptr_t)place >> 12 ^ (uintptr_t)next;
}

static struct freed *pop(struct zone *zone) {
  struct freed *object = zone->free;
  struct freed *next = (struct freed *)((uintptr_t)object >> 12 ^ object->next);
  if (UNLIKELY(object->key != key_of(object, slab_secret) ||
               (next && (zone_of(next) != zone || !zone_has_object_at(zone, next)))))
    fault("malloc", "an object was written after it was freed", object);
  zone->free = next;
  return object;
}

struct freed *slab_take(struct slab *slab) {
  struct zone *zone = slab->partial;
  if (UNLIKELY(!zone) && !(zone = new_zone(slab)))
    return NULL;
  if (UNLIKELY(!zone_is_in_use(zone) || zone->used >= zone->capacity))
    fault("malloc", "overwritten header of a zone", zone);
  struct freed *object = zone->free ? pop(zone) : zone_object(zone, zone->fresh++);
  if (++zone->used == zone->capacity) {
    remove_partial(slab, zone);
    add_full(slab, zone);
  }
  return object;
}

static void give_zone(struct slab *slab, struct zone *zone) {
  size_t bytes = (size_t)((char *)zone_object(zone, zone->fresh) - (char *)zone);
  if (zone->dirty_bytes < bytes)
    zone->dirty_bytes = bytes;
  remove_partial(slab, zone);
  zone->check = 0;
  int error = errno;
  zones_give(zone);
  errno = error;
}

void slab_give(struct slab *slab, struct freed *object) {
  struct zone *zone = zone_of(object);
  if (UNLIKELY(!zone_is_in_use(zone) || zone->used == 0 || zone->used > zone->capacity))
    fault("free", "overwritten header of a zone", zone);
  object->key = key_of(object, slab_secret);
  object->next = hide(object, zone->free);
  zone->free = object;
  if (zone->used-- == zone->capacity) {
    remove_full(slab, zone);
    add_partial(slab, zone);
  }
  if (zone->used == 0)
    give_zone(slab, zone);
}

static enum slab_state state_of(const struct freed *object) {
  uintptr_t key = __atomic_load_n(&object->key, __ATOMIC_RELAXED);
  if (key == key_of(object, slab_secret))
    return SLAB_FREE;
  return key == key_of(object, magazine_secret) ? SLAB_MAGAZINE : SLAB_USED;
}

static void walk_zones(const struct zone *zone,
                       void (*visit)(const void *address, size_t bytes, enum slab_state state, void *context),
                       void *context) {
  for (; zone; zone = zone->next) {
    for (uint32_t index = 0; index < zone->fresh; index++) {
      const struct freed *object = zone_object(zone, index);
      visit(object, zone->size_bytes, state_of(object), context);
    }
    if (zone->fresh < zone->capacity)
      visit(zone_object(zone, zone->fresh), (size_t)(zone->capacity - zone->fresh) * zone->size_bytes, SLAB_FRESH,
            context);
  }
}

void slab_walk(unsigned number, void (*visit)(const void *address, size_t bytes, enum slab_state state, void *context),
               void *context) {
  struct slab *slab = slab_lock(number);
  walk_zones(slab->partial, visit, context);
  walk_zones(slab->full, visit, context);
  slab_unlock(number);
}

enum { MOVE_BYTES_MIN = 256 << 10 /* from here on, moving OS pages costs less than copying */ };

static _Atomic size_t objects, objects_bytes;

static void note(ptrdiff_t count, size_t bytes) {
  sum_add(&objects, (size_t)count);
  sum_add(&objects_bytes, bytes);
}

/* Takes a run for that many bytes from its header on, lead_bytes before a multiple of alignment. */
static struct zone *take_run(size_t bytes, size_t alignment) {
  size_t run_bytes = round_up(bytes, ZONE_BYTES);
  bool anywhere = alignment < ZONE_BYTES;
  struct zone *zone;
  if (anywhere && run_bytes == ZONE_BYTES) {
    if ((zone = zones_take()))
      zone->run_bytes = run_bytes;
    return zone;
  }
  if (anywhere && (zone = runs_take(run_bytes))) {
    COUNT(runs_reused);
    return zone;
  }
  zone = system_map(run_bytes, anywhere ? ZONE_BYTES : alignment, anywhere ? 0 : ZONE_BYTES);
  if (zone)
    zone->run_bytes = run_bytes;
  return zone;
}

/* Returns the usable bytes: whole OS pages. */
static size_t usable_bytes(size_t first, size_t object_bytes) {
  return round_up(first + object_bytes, os_page_bytes) - first;
}

void *large_take(size_t object_bytes, size_t alignment, bool *zeroed) {
  size_t first = alignment < ZONE_HEADER_BYTES ? ZONE_HEADER_BYTES : alignment < ZONE_BYTES ? alignment : ZONE_BYTES;
  if (object_bytes > PTRDIFF_MAX - 2 * ZONE_BYTES || alignment > PTRDIFF_MAX / 2)
    return NULL;
  if (object_bytes == 0)
    object_bytes = 1; /* free() reads its first word */
  struct zone *zone = take_run(first + object_bytes, alignment);
  if (!zone)
    return NULL;
  COUNT(large_hits);
  zone->first = (uint32_t)first;
  zone->size_bytes = 0;
  zone->reciprocal = 0;
  zone->number = CLASS_LARGE;
  zone->capacity = 1;
  zone->object_bytes = usable_bytes(first, object_bytes);
  zone->check = key_of(zone, zone_secret);
  *zeroed = zone->dirty_bytes <= first;
  zone_purge(zone, first + zone->object_bytes);
  note(1, zone->run_bytes);
  return (char *)zone + first;
}

static void note_dirty(struct zone *zone) {
  size_t bytes = zone->first + zone->object_bytes;
  if (zone->dirty_bytes < bytes)
    zone->dirty_bytes = bytes;
}

void large_release(struct zone *zone) {
  zone->check = 0;
  note_dirty(zone);
  note(-1, -zone->run_bytes);
  if (zone->run_bytes == ZONE_BYTES)
    zones_give(zone);
  else
    runs_give(zone);
}

static void *move(struct zone *zone, size_t object_bytes) {
  size_t bytes = round_up(zone->first + object_bytes, ZONE_BYTES), old_bytes = zone->run_bytes;
  struct zone *to = system_map(bytes, ZONE_BYTES, 0);
  if (!to)
    return NULL;
  note_dirty(zone);
  if (!system_move(zone, old_bytes, to, bytes)) {
    system_unmap(to, bytes);
    return NULL;
  }
  to->run_bytes = bytes;
  if (to->dirty_bytes > bytes)
    to->dirty_bytes = bytes;
  to->object_bytes = usable_bytes(to->first, object_bytes);
  to->check = key_of(to, zone_secret);
  note(0, bytes - old_bytes);
  return (char *)to + to->first;
}

void *large_resize(struct zone *zone, size_t object_bytes) {
  size_t first = zone->first;
  if (object_bytes <= zone->run_bytes - first && object_bytes > zone->object_bytes / 2) {
    note_dirty(zone);
    zone->object_bytes = usable_bytes(first, object_bytes);
    return (char *)zone + first;
  }
  if (object_bytes < MOVE_BYTES_MIN || zone->run_bytes == ZONE_BYTES || first == ZONE_BYTES ||
      object_bytes > PTRDIFF_MAX - 2 * ZONE_BYTES)
    return NULL;
  int error = errno;
  void *moved = move(zone, object_bytes);
  errno = error;
  return moved;
}

void large_count(size_t *count, size_t *bytes) {
  *count = atomic_load_explicit(&objects, memory_order_relaxed);
  *bytes = atomic_load_explicit(&objects_bytes, memory_order_relaxed);
}

/* SPDX-License-Identifier: MIT */
#include "allocators/magazine/zone/large.h"

#include "allocators/common/lock.h"
#include "allocators/common/startup.h"
#include "allocators/magazine/zone/runs.h"
#include "allocators/magazine/zone/system.h"
#include "allocators/magazine/zone/zones.h"

#include <errno.h>

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

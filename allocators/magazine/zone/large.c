#include "allocators/magazine/zone/large.h"

#include "allocators/common/lock.h"
#include "allocators/common/startup.h"
#include "allocators/magazine/zone/system.h"
#include "allocators/magazine/zone/zones.h"

#include <errno.h>
#include <string.h>

enum {
  SLACK_SHARE = 4,           /* a kept run serves requests down to three quarters of it */
  MOVE_BYTES_MIN = 256 << 10 /* from here on moving OS pages costs less than copying */
};

static struct lock lock;
static struct zone *kept; /* newest first */
static size_t kept_bytes;
static _Atomic size_t objects, objects_bytes;

static void add(_Atomic size_t *sum, size_t amount) {
  if (!threads_may_run()) {
    atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + amount, memory_order_relaxed);
    return;
  }
  COUNT(atomics);
  atomic_fetch_add_explicit(sum, amount, memory_order_relaxed);
}

static void note(ptrdiff_t count, size_t bytes) {
  add(&objects, (size_t)count);
  add(&objects_bytes, bytes);
}

static void unlink_kept(struct zone *zone) {
  *(zone->prev ? &zone->prev->next : &kept) = zone->next;
  if (zone->next)
    zone->next->prev = zone->prev;
  kept_bytes -= zone->run_bytes;
}

static struct zone *take_kept(size_t bytes) {
  lock_take(&lock);
  struct zone *best = NULL;
  for (struct zone *zone = kept; zone; zone = zone->next)
    if (zone->run_bytes >= bytes && zone->run_bytes - bytes <= zone->run_bytes / SLACK_SHARE &&
        (!best || zone->run_bytes < best->run_bytes))
      best = zone;
  if (best) {
    COUNT(runs_reused);
    unlink_kept(best);
  }
  lock_drop(&lock);
  return best;
}

/* A run for that many bytes from its header on, whose place is lead_bytes before a multiple of alignment. */
static struct zone *take_run(size_t bytes, size_t alignment, bool *zeroed) {
  size_t run_bytes = round_up(bytes, ZONE_BYTES);
  bool anywhere = alignment < ZONE_BYTES;
  struct zone *zone;
  *zeroed = false;
  if (anywhere && run_bytes == ZONE_BYTES) {
    if ((zone = zones_take(zeroed)))
      zone->run_bytes = run_bytes;
    return zone;
  }
  if (anywhere && (zone = take_kept(run_bytes)))
    return zone;
  *zeroed = true;
  zone = system_map(run_bytes, anywhere ? ZONE_BYTES : alignment, anywhere ? 0 : ZONE_BYTES);
  if (zone)
    zone->run_bytes = run_bytes;
  return zone;
}

/* What the program may use: whole OS pages. */
static size_t usable_bytes(size_t first, size_t object_bytes) {
  return round_up(first + object_bytes, os_page_bytes) - first;
}

void *large_take(size_t object_bytes, size_t alignment, bool *zeroed) {
  size_t first = alignment < ZONE_HEADER_BYTES ? ZONE_HEADER_BYTES : alignment < ZONE_BYTES ? alignment : ZONE_BYTES;
  if (object_bytes > PTRDIFF_MAX - 2 * ZONE_BYTES || alignment > PTRDIFF_MAX / 2)
    return NULL;
  if (object_bytes == 0)
    object_bytes = 1; /* free() looks at its first word */
  struct zone *zone = take_run(first + object_bytes, alignment, zeroed);
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
  note(1, zone->run_bytes);
  return (char *)zone + first;
}

static void unmap_run(struct zone *zone) {
  int error = errno;
  system_unmap(zone, zone->run_bytes);
  errno = error;
}

void large_release(struct zone *zone) {
  zone->check = 0;
  note(-1, -zone->run_bytes);
  if (zone->run_bytes == ZONE_BYTES) {
    zones_give(zone);
    return;
  }
  lock_take(&lock);
  bool keep = kept_bytes + zone->run_bytes <= tunables.run_cache;
  if (keep) {
    zone->next = kept;
    zone->prev = NULL;
    if (kept)
      kept->prev = zone;
    kept = zone;
    kept_bytes += zone->run_bytes;
  }
  lock_drop(&lock);
  if (!keep)
    unmap_run(zone);
}

static void *move(struct zone *zone, size_t object_bytes) {
  size_t bytes = round_up(zone->first + object_bytes, ZONE_BYTES), old_bytes = zone->run_bytes;
  struct zone *to = system_map(bytes, ZONE_BYTES, 0);
  if (!to)
    return NULL;
  if (!system_move(zone, old_bytes, to, bytes)) {
    system_unmap(to, bytes);
    return NULL;
  }
  to->run_bytes = bytes;
  to->object_bytes = usable_bytes(to->first, object_bytes);
  to->check = key_of(to, zone_secret);
  note(0, bytes - old_bytes);
  return (char *)to + to->first;
}

void *large_resize(struct zone *zone, size_t object_bytes) {
  size_t first = zone->first;
  if (object_bytes <= zone->run_bytes - first && object_bytes > zone->object_bytes / 2) {
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

bool large_trim(void) {
  lock_take(&lock);
  bool any = kept != NULL;
  while (kept) {
    struct zone *zone = kept;
    unlink_kept(zone);
    unmap_run(zone);
  }
  lock_drop(&lock);
  return any;
}

void large_walk(void (*visit)(const struct zone *zone, void *context), void *context) {
  lock_take(&lock);
  for (const struct zone *zone = kept; zone; zone = zone->next)
    visit(zone, context);
  lock_drop(&lock);
}

void large_lock(void) {
  lock_take(&lock);
}

void large_unlock(void) {
  lock_drop(&lock);
}

void large_after_fork(void) {
  lock_reset(&lock);
}

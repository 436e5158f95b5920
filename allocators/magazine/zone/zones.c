/* SPDX-License-Identifier: MIT */
#include "allocators/magazine/zone/zones.h"

#include "allocators/common/lock.h"
#include "allocators/common/startup.h"
#include "allocators/magazine/zone/runs.h"
#include "allocators/magazine/zone/system.h"

enum {
  KEPT_MAX = 64,
  PURGE_BYTES_MIN = 16 << 10, /* four page faults cost more than a call that saves less */
};
enum { SCALE_HALVE, SCALE_SUBTRACT, SCALE_NONE }; /* the words of the tunable burst_scale */

static struct lock lock;
static struct zone *kept[KEPT_MAX]; /* newest last */
static size_t kept_count;
static size_t burst; /* zones of the last burst; 0: none yet */
static size_t mapped_bytes, mapped_bytes_max;

static size_t next_burst(void) {
  if (burst == 0 || tunables.burst_scale == SCALE_NONE)
    burst = tunables.burst;
  else if (tunables.burst_scale == SCALE_HALVE)
    burst /= 2;
  else
    burst--;
  burst = burst == 0 ? 1 : burst;
  return burst < tunables.zone_cache ? burst : 1;
}

static void note_mapped(size_t zones) {
  mapped_bytes += zones * ZONE_BYTES;
  if (mapped_bytes > mapped_bytes_max)
    mapped_bytes_max = mapped_bytes;
}

/* Keeps all but the first zone of a run, to be taken in order of address. The header of a never written zone is not
   written: as zeros, it says that nothing is dirty. */
static struct zone *divide(char *memory, size_t bytes, size_t dirty_bytes) {
  for (size_t at = bytes - ZONE_BYTES; at > 0; at -= ZONE_BYTES) {
    struct zone *zone = (struct zone *)(memory + at);
    if (dirty_bytes > at)
      zone->dirty_bytes = dirty_bytes - at < ZONE_BYTES ? dirty_bytes - at : ZONE_BYTES;
    kept[kept_count++] = zone;
  }
  struct zone *first = (struct zone *)memory;
  first->dirty_bytes = dirty_bytes < ZONE_BYTES ? dirty_bytes : ZONE_BYTES;
  return first;
}

static struct zone *map_burst(void) {
  size_t count = next_burst();
  char *memory = system_map(count * ZONE_BYTES, ZONE_BYTES, 0);
  if (!memory && count > 1)
    memory = system_map((count = 1) * ZONE_BYTES, ZONE_BYTES, 0);
  if (!memory)
    return NULL;
  COUNT_MANY(zones_mapped, count);
  note_mapped(count);
  return divide(memory, count * ZONE_BYTES, 0);
}

static struct zone *divide_run(void) {
  struct zone *run = tunables.zone_cache ? runs_take_smallest(tunables.zone_cache * ZONE_BYTES) : NULL;
  if (!run)
    return NULL;
  note_mapped(run->run_bytes / ZONE_BYTES);
  return divide((char *)run, run->run_bytes, run->dirty_bytes);
}

struct zone *zones_take(void) {
  COUNT(zones_taken);
  lock_take(&lock);
  struct zone *zone = kept_count > 0 ? kept[--kept_count] : divide_run();
  if (!zone)
    zone = map_burst();
  lock_drop(&lock);
  return zone;
}

static void unmap(size_t from, size_t to) {
  for (size_t index = from; index < to; index++)
    system_unmap(kept[index], ZONE_BYTES);
  mapped_bytes -= (to - from) * ZONE_BYTES;
}

/* Keeps the newest zones, which may be in the processor's caches. */
static void shed(size_t keep) {
  size_t count = kept_count - keep;
  COUNT_MANY(zones_shed, count);
  unmap(0, count);
  for (size_t index = 0; index < keep; index++)
    kept[index] = kept[index + count];
  kept_count = keep;
}

void zones_give(struct zone *zone) {
  lock_take(&lock);
  if (tunables.zone_cache == 0) {
    mapped_bytes -= ZONE_BYTES;
    system_unmap(zone, ZONE_BYTES);
  } else {
    if (kept_count >= tunables.zone_cache)
      shed(tunables.shed_to < tunables.zone_cache ? tunables.shed_to : tunables.zone_cache - 1);
    kept[kept_count++] = zone;
  }
  lock_drop(&lock);
}

void zone_purge(struct zone *zone, size_t from_bytes) {
  size_t from = round_up(from_bytes, os_page_bytes);
  if (zone->dirty_bytes < from + PURGE_BYTES_MIN)
    return;
  system_purge((char *)zone + from, round_up(zone->dirty_bytes, os_page_bytes) - from);
  zone->dirty_bytes = from;
}

bool zones_trim(void) {
  lock_take(&lock);
  bool any = kept_count > 0;
  unmap(0, kept_count);
  kept_count = 0;
  lock_drop(&lock);
  return any;
}

size_t zones_mapped_bytes(size_t *most) {
  lock_take(&lock);
  size_t bytes = mapped_bytes;
  *most = mapped_bytes_max;
  lock_drop(&lock);
  return bytes;
}

void zones_walk(void (*visit)(const struct zone *zone, void *context), void *context) {
  lock_take(&lock);
  for (size_t index = 0; index < kept_count; index++)
    visit(kept[index], context);
  lock_drop(&lock);
}

void zones_lock(void) {
  lock_take(&lock);
}

void zones_unlock(void) {
  lock_drop(&lock);
}

void zones_after_fork(void) {
  lock_reset(&lock);
}

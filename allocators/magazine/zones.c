/* SPDX-License-Identifier: MIT */
#include "allocators/magazine/zones.h"

#include "allocators/common/counters.h"
#include "allocators/common/entry.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

uint8_t class_numbers[SMALL_MAX_BYTES / CLASS_STEP_BYTES + 1];
uint32_t class_bytes[CLASSES];
uintptr_t zone_secret, magazine_secret, slab_secret;

void class_setup(void) {
  size_t at = 0; /* units of 16 bytes that have a class */
  uint32_t bytes = 0;
  for (unsigned number = 0; number < CLASSES; number++) {
    /* The step is an eighth of the power of two that the last class reached. */
    uint32_t power = bytes < 128 ? 128 : 1u << (31 - __builtin_clz(bytes));
    bytes += power / 8;
    class_bytes[number] = bytes;
    for (; at <= bytes / CLASS_STEP_BYTES; at++)
      class_numbers[at] = (uint8_t)number;
  }
}

/* Where the next mapping is tried: before the last one, where the kernel would also put it, except for alignment. */
static _Atomic uintptr_t hint;

static char *map_at(uintptr_t address, size_t bytes) {
  COUNT(mmaps);
  void *memory = mmap((void *)address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

void system_unmap(void *memory, size_t bytes) {
  if (bytes == 0)
    return;
  COUNT(munmaps);
  munmap(memory, bytes);
}

static bool fits(const char *memory, size_t alignment, size_t lead_bytes) {
  return (((uintptr_t)memory + lead_bytes) & (alignment - 1)) == 0;
}

void *system_map(size_t bytes, size_t alignment, size_t lead_bytes) {
  uintptr_t last = atomic_load_explicit(&hint, memory_order_relaxed), wanted = 0;
  if (last > bytes + alignment)
    wanted = ((last - bytes + lead_bytes) & ~(alignment - 1)) - lead_bytes;
  char *memory = map_at(wanted, bytes);
  if (memory && !fits(memory, alignment, lead_bytes)) {
    /* That place is taken: maps more than is needed, and unmaps what is before and behind. */
    system_unmap(memory, bytes);
    size_t padded;
    if (__builtin_add_overflow(bytes, alignment, &padded) || !(memory = map_at(0, padded)))
      return NULL;
    char *start = (char *)round_up((uintptr_t)memory + lead_bytes, alignment) - lead_bytes;
    system_unmap(start + bytes, (size_t)(memory + padded - (start + bytes)));
    system_unmap(memory, (size_t)(start - memory));
    memory = start;
  }
  if (memory)
    atomic_store_explicit(&hint, (uintptr_t)memory, memory_order_relaxed);
  return memory;
}

void system_purge(void *memory, size_t bytes) {
  COUNT(madvises);
  madvise(memory, bytes, MADV_DONTNEED);
}

int system_move(void *from, size_t from_bytes, void *to, size_t to_bytes) {
  COUNT(mremaps);
  return mremap(from, from_bytes, to_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
}

enum { SLACK_SHARE = 4 /* a run serves requests down to 3/4 of its size */ };

struct lock runs_lock;
static struct zone *kept_runs; /* newest first */
static size_t kept_bytes;

static void unlink_run(struct zone *run) {
  *(run->prev ? &run->prev->next : &kept_runs) = run->next;
  if (run->next)
    run->next->prev = run->prev;
  kept_bytes -= run->run_bytes;
}

static struct zone *take_between(size_t least_bytes, size_t most_bytes) {
  lock_take(&runs_lock);
  struct zone *best = NULL;
  for (struct zone *run = kept_runs; run; run = run->next)
    if (run->run_bytes >= least_bytes && run->run_bytes <= most_bytes && (!best || run->run_bytes < best->run_bytes))
      best = run;
  if (best)
    unlink_run(best);
  lock_drop(&runs_lock);
  return best;
}

struct zone *runs_take(size_t bytes) {
  return take_between(bytes, bytes + bytes / (SLACK_SHARE - 1));
}

/* Returns the smallest kept run if it has at most most_bytes, else NULL. */
static struct zone *runs_take_smallest(size_t most_bytes) {
  return take_between(0, most_bytes);
}

static void unmap_run(struct zone *run) {
  int error = errno;
  system_unmap(run, run->run_bytes);
  errno = error;
}

void runs_give(struct zone *run) {
  lock_take(&runs_lock);
  bool keep = kept_bytes + run->run_bytes <= tunables.run_cache;
  if (keep) {
    run->next = kept_runs;
    run->prev = NULL;
    if (kept_runs)
      kept_runs->prev = run;
    kept_runs = run;
    kept_bytes += run->run_bytes;
  }
  lock_drop(&runs_lock);
  if (!keep)
    unmap_run(run);
}

bool runs_trim(void) {
  lock_take(&runs_lock);
  bool any = kept_runs != NULL;
  while (kept_runs) {
    struct zone *run = kept_runs;
    unlink_run(run);
    unmap_run(run);
  }
  lock_drop(&runs_lock);
  return any;
}

void runs_walk(void (*visit)(const struct zone *run, void *context), void *context) {
  lock_take(&runs_lock);
  for (const struct zone *run = kept_runs; run; run = run->next)
    visit(run, context);
  lock_drop(&runs_lock);
}

enum {
  KEPT_MAX = 64,
  PURGE_BYTES_MIN = 16 << 10, /* four page faults cost more than a call that saves less */
};
enum { SCALE_HALVE, SCALE_SUBTRACT, SCALE_NONE }; /* the words of the tunable burst_scale */

struct lock zones_lock;
static struct zone *kept_zones[KEPT_MAX]; /* newest last */
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
    kept_zones[kept_count++] = zone;
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
  lock_take(&zones_lock);
  struct zone *zone = kept_count > 0 ? kept_zones[--kept_count] : divide_run();
  if (!zone)
    zone = map_burst();
  lock_drop(&zones_lock);
  return zone;
}

static void unmap_zones(size_t from, size_t to) {
  for (size_t index = from; index < to; index++)
    system_unmap(kept_zones[index], ZONE_BYTES);
  mapped_bytes -= (to - from) * ZONE_BYTES;
}

/* Keeps the newest zones, which may be in the processor's caches. */
static void shed(size_t keep) {
  size_t count = kept_count - keep;
  COUNT_MANY(zones_shed, count);
  unmap_zones(0, count);
  for (size_t index = 0; index < keep; index++)
    kept_zones[index] = kept_zones[index + count];
  kept_count = keep;
}

void zones_give(struct zone *zone) {
  lock_take(&zones_lock);
  if (tunables.zone_cache == 0) {
    mapped_bytes -= ZONE_BYTES;
    system_unmap(zone, ZONE_BYTES);
  } else {
    if (kept_count >= tunables.zone_cache)
      shed(tunables.shed_to < tunables.zone_cache ? tunables.shed_to : tunables.zone_cache - 1);
    kept_zones[kept_count++] = zone;
  }
  lock_drop(&zones_lock);
}

void zone_purge(struct zone *zone, size_t from_bytes) {
  size_t from = round_up(from_bytes, os_page_bytes);
  if (zone->dirty_bytes < from + PURGE_BYTES_MIN)
    return;
  system_purge((char *)zone + from, round_up(zone->dirty_bytes, os_page_bytes) - from);
  zone->dirty_bytes = from;
}

bool zones_trim(void) {
  lock_take(&zones_lock);
  bool any = kept_count > 0;
  unmap_zones(0, kept_count);
  kept_count = 0;
  lock_drop(&zones_lock);
  return any;
}

size_t zones_mapped_bytes(size_t *most) {
  lock_take(&zones_lock);
  size_t bytes = mapped_bytes;
  *most = mapped_bytes_max;
  lock_drop(&zones_lock);
  return bytes;
}

void zones_walk(void (*visit)(const struct zone *zone, void *context), void *context) {
  lock_take(&zones_lock);
  for (size_t index = 0; index < kept_count; index++)
    visit(kept_zones[index], context);
  lock_drop(&zones_lock);
}

/* SPDX-License-Identifier: MIT */
/* A malloc library whose layout is known beforehand, for the tests of the passes sharing and blame: no memory is used
   twice, and an object's rounded size is usable.

   PLACE_ROUND_BYTES=N (default 16): each malloc and realloc takes the next bytes, the request rounded up to a multiple
   of N, all threads one behind the other, from an address that is a multiple of 1 MiB: the first object is at offset 0.
   PLACE_APART=1: each thread takes them from its own region instead. calloc and aligned calls have a separate region,
   so that the C library's requests at pthread_create do not disturb. */
#include "core/test/usual.h"

#define PUBLIC __attribute__((visibility("default")))

enum { REGION_BYTES = 64 << 20, REGIONS = 64, ALIGNMENT = 1 << 20, SIZES_SHIFT = 3 };

static uint8_t *memory; /* region 0: all threads; 1: calloc; from 2 on: one per thread */
static uint32_t *sizes; /* of the object that begins at each 8th byte */
static _Atomic uint64_t used[REGIONS];
static _Atomic uint32_t regions = 2;
static uint64_t round_bytes = 16;
static bool apart;
static __thread uint32_t own_region;

static void *map(uint64_t bytes) {
  void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    abort();
  return mapped;
}

__attribute__((constructor)) static void begin(void) {
  if (memory)
    return;
  uint64_t all = (uint64_t)REGION_BYTES * REGIONS;
  uintptr_t mapped = (uintptr_t)map(all + ALIGNMENT);
  sizes = map((all >> SIZES_SHIFT) * sizeof *sizes);
  const char *round = getenv("PLACE_ROUND_BYTES"), *place = getenv("PLACE_APART");
  round_bytes = round ? strtoull(round, NULL, 10) : 16;
  apart = place && *place == '1';
  memory = (uint8_t *)((mapped + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

static void *take(uint32_t region, uint64_t bytes, uint64_t step) {
  begin();
  uint64_t rounded = (bytes + step - 1) / step * step;
  if (rounded == 0)
    rounded = step;
  if (rounded > REGION_BYTES)
    return errno = ENOMEM, NULL;
  uint64_t offset = atomic_fetch_add(&used[region], rounded);
  if (offset + rounded > REGION_BYTES)
    abort();
  uint64_t at = (uint64_t)region * REGION_BYTES + offset;
  sizes[at >> SIZES_SHIFT] = (uint32_t)bytes;
  return memory + at;
}

PUBLIC void *malloc(size_t bytes) {
  if (apart && own_region == 0)
    own_region = atomic_fetch_add(&regions, 1);
  return take(apart ? own_region : 0, bytes, round_bytes);
}

PUBLIC void free(void *object) {
  (void)object;
}

PUBLIC size_t malloc_usable_size(void *object) {
  if (!object)
    return 0;
  uint64_t bytes = sizes[((uint8_t *)object - memory) >> SIZES_SHIFT];
  uint64_t step = (uint64_t)((uint8_t *)object - memory) / REGION_BYTES == 1 ? 64 : round_bytes;
  return bytes ? (bytes + step - 1) / step * step : step;
}

PUBLIC void *realloc(void *object, size_t bytes) {
  if (!object)
    return malloc(bytes);
  if (bytes == 0)
    return NULL;
  void *moved = malloc(bytes);
  uint32_t old_bytes = sizes[((uint8_t *)object - memory) >> SIZES_SHIFT];
  if (moved)
    memcpy(moved, object, old_bytes < bytes ? old_bytes : bytes);
  return moved;
}

PUBLIC void *calloc(size_t count, size_t bytes) {
  return count && bytes > REGION_BYTES / count ? NULL : take(1, count * bytes, 64);
}

PUBLIC int posix_memalign(void **object, size_t alignment, size_t bytes) {
  *object = take(1, bytes, alignment < 64 ? 64 : alignment);
  return *object ? 0 : ENOMEM;
}

PUBLIC void *aligned_alloc(size_t alignment, size_t bytes) {
  return take(1, bytes, alignment < 64 ? 64 : alignment);
}

PUBLIC void *memalign(size_t alignment, size_t bytes) {
  return take(1, bytes, alignment < 64 ? 64 : alignment);
}

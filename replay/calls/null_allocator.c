/* SPDX-License-Identifier: MIT */
#include "replay/calls/null_allocator.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

/* 1 TiB in regions of 1 GiB, or as much as is available (less under Valgrind). Further threads share the addresses of
   the first ones, which is harmless. */
#define REGION_BYTES ((uintptr_t)1 << 30)
enum { MOST_REGIONS = 1024 };

static uintptr_t reserved;
static uint32_t regions = MOST_REGIONS;
static _Atomic uint32_t regions_given;

/* Initial-exec, as in a main program. 0 in both: the thread has no region yet. */
static __thread uintptr_t bump, region_end;

int null_allocator_setup(void) {
  void *memory;
  while ((memory = mmap(NULL, regions * REGION_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) ==
         MAP_FAILED) {
    if (regions == 1)
      return -1;
    regions /= 2;
  }
  reserved = (uintptr_t)memory;
  return 0;
}

static __attribute__((noinline)) void begin_region(void) {
  if (region_end == 0)
    region_end = reserved + (atomic_fetch_add(&regions_given, 1) % regions + 1) * REGION_BYTES;
  bump = region_end - REGION_BYTES;
}

void *null_memalign(size_t alignment_bytes, size_t size_bytes) {
  uintptr_t mask = alignment_bytes < 16 || alignment_bytes > REGION_BYTES ? 15 : alignment_bytes - 1;
  uintptr_t address = (bump + mask) & ~mask;
  if (address >= region_end || size_bytes >= region_end - address) {
    begin_region();
    address = (bump + mask) & ~mask;
    if (size_bytes >= REGION_BYTES / 2)
      return (void *)address;
  }
  bump = address + ((size_bytes + 15) & ~(uintptr_t)15);
  return (void *)address;
}

void *null_malloc(size_t size_bytes) {
  uintptr_t address = bump;
  if (__builtin_expect(size_bytes >= region_end - address, 0))
    return null_memalign(16, size_bytes);
  bump = address + ((size_bytes + 15) & ~(uintptr_t)15);
  return (void *)address;
}

void null_free(void *pointer) {
  (void)pointer;
}

void *null_calloc(size_t count, size_t size_bytes) {
  size_t request_bytes;
  return null_malloc(__builtin_mul_overflow(count, size_bytes, &request_bytes) ? SIZE_MAX : request_bytes);
}

void *null_realloc(void *pointer, size_t size_bytes) {
  (void)pointer;
  return null_malloc(size_bytes);
}

int null_posix_memalign(void **out, size_t alignment_bytes, size_t size_bytes) {
  *out = null_memalign(alignment_bytes, size_bytes);
  return 0;
}

/* SPDX-License-Identifier: MIT */
#include "allocators/magazine/zone/system.h"

#include "allocators/common/counters.h"
#include "allocators/magazine/zone/zone.h"

#include <stdatomic.h>
#include <sys/mman.h>

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

/* SPDX-License-Identifier: MIT */
#include "allocators/reference/arena/mapped.h"

#include "allocators/common/base/fault.h"
#include "allocators/common/counters.h"
#include "allocators/reference/arena/heap.h"
#include "allocators/reference/base/settings.h"

#include <sys/mman.h>

enum { MMAP_THRESHOLD_MAX = 32 << 20 };

static _Atomic size_t mapped_chunks, mapped_bytes;

static void note(ptrdiff_t chunks, size_t bytes) {
  sum_add(&mapped_chunks, (size_t)chunks);
  sum_add(&mapped_bytes, bytes);
}

void *mapped_take(size_t object_bytes, size_t alignment) {
  size_t lead = alignment > CHUNK_ALIGNMENT ? alignment : 0;
  size_t total;
  if (__builtin_add_overflow(object_bytes, lead + CHUNK_OBJECT_OFFSET + os_page_bytes - 1, &total) ||
      total > PTRDIFF_MAX)
    return NULL;
  total &= ~(os_page_bytes - 1);
  COUNT(mmaps);
  char *memory = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return NULL;
  if (tunables.thp) {
    COUNT(madvises);
    madvise(memory, total, MADV_HUGEPAGE);
  }
  COUNT(mapped_hits);
  note(1, total);
  char *object = (char *)round_up((uintptr_t)memory + CHUNK_OBJECT_OFFSET, alignment);
  struct chunk *chunk = chunk_of(object);
  chunk->prev_bytes = (size_t)((char *)chunk - memory);
  chunk_set_head(chunk, (total - chunk->prev_bytes) | CHUNK_MAPPED);
  return object;
}

static char *mapping_of(struct chunk *chunk, size_t *total) {
  char *memory = (char *)chunk - chunk->prev_bytes;
  *total = chunk_bytes(chunk) + chunk->prev_bytes;
  if (UNLIKELY(((uintptr_t)memory | *total) & (os_page_bytes - 1)))
    fault("free", "invalid pointer or overwritten size of a mapped object", chunk_object(chunk));
  return memory;
}

static void raise_thresholds(size_t bytes) {
  if (!dynamic_thresholds || bytes > MMAP_THRESHOLD_MAX ||
      bytes <= __atomic_load_n(&tunables.mmap_threshold, __ATOMIC_RELAXED))
    return;
  __atomic_store_n(&tunables.mmap_threshold, bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&tunables.trim_threshold, 2 * bytes, __ATOMIC_RELAXED);
}

void mapped_release(struct chunk *chunk) {
  size_t total;
  char *memory = mapping_of(chunk, &total);
  raise_thresholds(chunk_bytes(chunk));
  note(-1, -total);
  COUNT(munmaps);
  munmap(memory, total);
}

void *mapped_resize(struct chunk *chunk, size_t object_bytes) {
  size_t total, wanted, lead = chunk->prev_bytes;
  char *memory = mapping_of(chunk, &total);
  if (__builtin_add_overflow(object_bytes, lead + CHUNK_OBJECT_OFFSET + os_page_bytes - 1, &wanted))
    return NULL;
  wanted &= ~(os_page_bytes - 1);
  if (wanted != total) {
    COUNT(mremaps);
    memory = mremap(memory, total, wanted, MREMAP_MAYMOVE);
    if (memory == MAP_FAILED)
      return NULL;
    note(0, wanted - total);
    chunk = chunk_at(memory, (ptrdiff_t)lead);
    chunk_set_head(chunk, (wanted - lead) | CHUNK_MAPPED);
  }
  return chunk_object(chunk);
}

void mapped_count(size_t *count, size_t *bytes) {
  *count = atomic_load_explicit(&mapped_chunks, memory_order_relaxed);
  *bytes = atomic_load_explicit(&mapped_bytes, memory_order_relaxed);
}

/* SPDX-License-Identifier: MIT */
#include "allocators/reference/arena/arena.h"

#include "allocators/common/base/fault.h"

struct arena main_arena = {.by_break = false};

struct arena *arena_of_heap(struct chunk *chunk) {
  struct heap *heap = (struct heap *)((uintptr_t)chunk & ~(uintptr_t)(HEAP_BYTES - 1));
  struct arena *arena = heap->arena;
  if (UNLIKELY(!arena || arena->chunk_flag != CHUNK_OTHER_ARENA))
    fault("free", "invalid pointer: its heap has no arena", chunk_object(chunk));
  return arena;
}

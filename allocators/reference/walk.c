/* SPDX-License-Identifier: MIT */
#include "allocators/reference/walk.h"

#include "allocators/common/allocator.h"
#include "allocators/common/startup.h"
#include "allocators/reference/arena/arena.h"
#include "allocators/reference/arena/heap.h"
#include "allocators/reference/tcache.h"

struct visitor {
  void (*visit)(const void *address, size_t bytes, unsigned state, void *context);
  void *context;
};

static enum walk_state state_of(struct arena *arena, struct chunk *chunk) {
  if (chunk == arena->top)
    return WALK_TOP;
  if (!chunk_prev_used(chunk_next(chunk))) {
    if (chunk == bins_remainder(&arena->bins))
      return WALK_REMAINDER;
    return chunk_bytes(chunk) < SMALL_LIMIT_BYTES ? WALK_SMALL : WALK_LARGE;
  }
  const struct cached *cached = chunk_object(chunk);
  uintptr_t key = __atomic_load_n(&cached->key, __ATOMIC_RELAXED);
  return key == tcache_key ? WALK_TCACHE : key == fast_key ? WALK_FAST : WALK_USED;
}

/* A used chunk's object reaches 8 bytes into the next chunk, whose own part begins at its head. There is none behind
   the top. */
static void visit_chunk(const struct chunk *chunk, enum walk_state state, const struct visitor *visitor) {
  size_t lead = offsetof(struct chunk, head), bytes = chunk_bytes(chunk) - (state == WALK_TOP ? lead : 0);
  visitor->visit((const char *)chunk + lead, bytes, state, visitor->context);
}

static void walk_heap(struct arena *arena, struct heap *heap, const struct visitor *visitor) {
  const char *end = (const char *)heap + heap->bytes;
  struct chunk *chunk = heap_first_chunk(heap);
  while ((const char *)chunk < end) {
    size_t bytes = chunk_bytes(chunk);
    bool fence = heap != arena->heap && (const char *)chunk + bytes + CHUNK_ALIGNMENT >= end;
    if (fence || bytes < CHUNK_MIN_BYTES) /* a fence, or corrupt: the walk can't continue */
      return;
    visit_chunk(chunk, state_of(arena, chunk), visitor);
    if (chunk == arena->top)
      return;
    chunk = chunk_next(chunk);
  }
}

void heaptape_heap_walk(void (*visit)(const void *address, size_t bytes, unsigned state, void *context),
                        void *context) {
  struct visitor visitor = {visit, context};
  startup();
  for (struct arena *arena = &main_arena; arena; arena = arena_next(arena)) {
    lock_take(&arena->lock);
    for (struct heap *heap = arena->heap; heap; heap = heap->prev)
      walk_heap(arena, heap, &visitor);
    arena_unlock(arena);
  }
}

const char *heaptape_heap_walk_state(unsigned state) {
  static const char *const names[] = {"used", "tcache", "fast", "remainder", "small", "large", "top"};
  _Static_assert(sizeof names / sizeof *names == WALK_STATES, "a name for each");
  return state < WALK_STATES ? names[state] : NULL;
}

#include "allocators/reference/arena/arena.h"
#include "allocators/reference/arena/heap.h"
#include "allocators/reference/reference.h"
#include "allocators/reference/startup.h"
#include "allocators/reference/tcache.h"

const char *reference_state_name(enum reference_state state) {
  static const char *const names[] = {"used", "tcache", "fast", "unsorted", "small", "large", "top"};
  return state < REFERENCE_STATES ? names[state] : "unknown";
}

/* The unsorted bin's chunks look like those of other bins: they are marked while a walk lasts. */
static void mark_unsorted(struct arena *arena, bool mark) {
  struct links *list = &arena->bins.unsorted;
  for (struct links *links = list->next; links != list; links = links->next) {
    struct chunk *chunk = chunk_of_links(links);
    size_t head = chunk_head(chunk) & ~(size_t)CHUNK_MARK;
    chunk_set_head(chunk, mark ? head | CHUNK_MARK : head);
  }
}

static enum reference_state state_of(struct chunk *chunk, const struct chunk *top) {
  if (chunk == top)
    return REFERENCE_TOP;
  if (!chunk_prev_used(chunk_next(chunk))) {
    if (chunk_head(chunk) & CHUNK_MARK)
      return REFERENCE_UNSORTED;
    return chunk_bytes(chunk) < SMALL_LIMIT_BYTES ? REFERENCE_SMALL : REFERENCE_LARGE;
  }
  const struct cached *cached = chunk_object(chunk);
  uintptr_t key = __atomic_load_n(&cached->key, __ATOMIC_RELAXED);
  return key == tcache_key ? REFERENCE_TCACHE : key == fast_key ? REFERENCE_FAST : REFERENCE_USED;
}

static void walk_heap(const struct arena *arena, struct heap *heap,
                      void (*visit)(const struct reference_chunk *chunk, void *context), void *context) {
  const char *end = (const char *)heap + heap->bytes;
  struct chunk *chunk = heap_first_chunk(heap);
  while ((const char *)chunk < end) {
    size_t bytes = chunk_bytes(chunk);
    bool fence = heap != arena->heap && (const char *)chunk + bytes + CHUNK_ALIGNMENT >= end;
    if (fence || bytes < CHUNK_MIN_BYTES) /* a fence, or corrupt: there is no way on */
      return;
    struct reference_chunk about = {arena->number, state_of(chunk, arena->top), chunk, bytes};
    visit(&about, context);
    if (chunk == arena->top)
      return;
    chunk = chunk_next(chunk);
  }
}

void reference_walk(void (*visit)(const struct reference_chunk *chunk, void *context), void *context) {
  startup();
  for (struct arena *arena = &main_arena; arena; arena = arena_next(arena)) {
    lock_take(&arena->lock);
    mark_unsorted(arena, true);
    for (struct heap *heap = arena->heap; heap; heap = heap->prev)
      walk_heap(arena, heap, visit, context);
    mark_unsorted(arena, false);
    arena_unlock(arena);
  }
}

struct generic_visit {
  void (*visit)(const void *address, size_t bytes, unsigned state, void *context);
  void *context;
};

/* A used chunk's object reaches 8 bytes into the next chunk, whose own part begins at its head. There is none behind
   the top. */
static void visit_generically(const struct reference_chunk *chunk, void *context) {
  const struct generic_visit *generic = context;
  size_t lead = offsetof(struct chunk, head), bytes = chunk->size_bytes - (chunk->state == REFERENCE_TOP ? lead : 0);
  generic->visit((const char *)chunk->address + lead, bytes, chunk->state, generic->context);
}

void heaptape_heap_walk(void (*visit)(const void *address, size_t bytes, unsigned state, void *context),
                        void *context) {
  struct generic_visit generic = {visit, context};
  reference_walk(visit_generically, &generic);
}

const char *heaptape_heap_walk_state(unsigned state) {
  return state < REFERENCE_STATES ? reference_state_name((enum reference_state)state) : NULL;
}

/* SPDX-License-Identifier: MIT */
#include "allocators/common/allocator.h"
#include "allocators/common/entry.h"
#include "allocators/reference/arena.h"
#include "allocators/reference/chunk.h"
#include "allocators/reference/heap.h"
#include "allocators/reference/take.h"
#include "allocators/reference/tcache.h"

#include <errno.h>

/* The states of a chunk in the heap walk (common/allocator.h).

   Chunks cover their heap without gaps, except its header and the fence at the end of a full heap. A block of the walk
   is what only that chunk has, from its head to the next chunk's head. Objects with their own mapping belong to no
   arena and are not visited. */
enum walk_state {
  WALK_USED,
  WALK_TCACHE, /* free in some thread's cache, used for everything else */
  WALK_FAST,
  WALK_REMAINDER, /* what the last small request left of a chunk */
  WALK_SMALL,
  WALK_LARGE,
  WALK_TOP, /* the end of the arena's newest heap */
  WALK_STATES
};

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

/* The rest of the malloc API: queries of the heap, and settings (further ones: common/entry.c). */

size_t allocator_malloc_usable_size(void *object) {
  return object ? chunk_usable_bytes(chunk_of(object)) : 0;
}

static bool purge_list(struct links *list) {
  bool any = false;
  for (struct links *links = list->next; links != list; links = links->next)
    any |= heap_purge(chunk_of_links(links));
  return any;
}

int allocator_malloc_trim(size_t keep_bytes) {
  startup();
  int error = errno;
  bool any = false;
  for (struct arena *arena = &main_arena; arena; arena = arena_next(arena)) {
    lock_take(&arena->lock);
    arena_consolidate(arena);
    any |= purge_list(&arena->bins.lists[REMAINDER_BIN]);
    for (unsigned number = SMALL_BINS; number < BINS; number++) /* a small chunk holds no whole OS page */
      any |= purge_list(&arena->bins.lists[number]);
    any |= heap_trim(arena, arena == &main_arena ? keep_bytes : 0);
    arena_unlock(arena);
  }
  errno = error;
  return any;
}

void allocator_summarize(const struct heap_sums *sums, struct mallinfo2 *info) {
  for (struct arena *arena = &main_arena; arena; arena = arena_next(arena)) {
    info->arena += arena_system_bytes(arena);
    info->usmblks += arena->system_bytes_max;
  }
  info->smblks = sums->count[WALK_FAST];
  info->fsmblks = sums->bytes[WALK_FAST];
  for (int state = WALK_REMAINDER; state < WALK_STATES; state++) {
    info->ordblks += sums->count[state];
    info->fordblks += sums->bytes[state];
  }
  info->fordblks += info->fsmblks;
  info->uordblks = sums->bytes[WALK_USED] + sums->bytes[WALK_TCACHE];
  info->keepcost = sums->bytes[WALK_TOP];
  mapped_count(&info->hblks, &info->hblkhd);
}

void allocator_print_parts(FILE *stream) {
  for (struct arena *arena = &main_arena; arena; arena = arena_next(arena))
    fprintf(stream,
            "<heap nr=\"%u\"><system type=\"current\" size=\"%zu\"/><system type=\"max\" size=\"%zu\"/></heap>\n",
            arena->number, arena_system_bytes(arena), arena->system_bytes_max);
}

int allocator_mallopt(int option, int value) {
  startup();
  if (value < 0)
    return 0;
  size_t number = (size_t)value;
  switch (option) {
  case M_MXFAST:
    if (number > FAST_MAX_BYTES - CHUNK_OVERHEAD)
      return 0;
    fast_max_bytes = number == 0 ? 0 : chunk_bytes_for(number);
    return 1;
  case M_TRIM_THRESHOLD:
    dynamic_thresholds = false;
    tunables.trim_threshold = number;
    return 1;
  case M_TOP_PAD:
    dynamic_thresholds = false;
    tunables.top_pad = number;
    return 1;
  case M_MMAP_THRESHOLD:
    if (number > HEAP_BYTES / 2)
      return 0;
    dynamic_thresholds = false;
    tunables.mmap_threshold = number;
    return 1;
  case M_MMAP_MAX:
    dynamic_thresholds = false;
    if (number == 0)
      tunables.mmap_threshold = SIZE_MAX;
    return 1;
  case M_ARENA_MAX:
    tunables.arenas = number;
    return 1;
  case M_PERTURB: /* the inlined paths of existing caches would ignore it: only the tunable fills */
  case M_ARENA_TEST:
  case M_CHECK_ACTION:
    return 1;
  default:
    return 0;
  }
}

PUBLIC_NAME(size_t, malloc_usable_size, (void *object), allocator_malloc_usable_size);
PUBLIC_NAME(int, malloc_trim, (size_t keep_bytes), allocator_malloc_trim);
PUBLIC_NAME(int, mallopt, (int option, int value), allocator_mallopt);

/* SPDX-License-Identifier: MIT */
/* The rest of the malloc API: queries of the heap, and settings (further ones: common/calls/info.c). */
#include "allocators/common/entry.h"
#include "allocators/common/hooks.h"
#include "allocators/common/startup.h"
#include "allocators/reference/arena/arena.h"
#include "allocators/reference/arena/heap.h"
#include "allocators/reference/arena/mapped.h"
#include "allocators/reference/arena/release.h"
#include "allocators/reference/base/settings.h"
#include "allocators/reference/walk.h"

#include <errno.h>

size_t allocator_malloc_usable_size(void *object) {
  return object ? chunk_usable_bytes(chunk_of(object)) : 0;
}

/* Purges the free chunks of a list. */
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

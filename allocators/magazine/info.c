/* SPDX-License-Identifier: MIT */
/* The rest of the malloc API: figures of the heap, giving memory back, settings (and common/calls/info.c). */
#include "allocators/common/entry.h"
#include "allocators/common/hooks.h"
#include "allocators/common/startup.h"
#include "allocators/magazine/cache.h"
#include "allocators/magazine/depot.h"
#include "allocators/magazine/walk.h"
#include "allocators/magazine/zone/large.h"
#include "allocators/magazine/zone/runs.h"
#include "allocators/magazine/zone/zones.h"

#include <errno.h>

enum { MMAP_THRESHOLD_MAX = 32 << 20 /* glibc's */ };

void allocator_summarize(const struct heap_sums *sums, struct mallinfo2 *info) {
  size_t most;
  info->uordblks = sums->bytes[WALK_USED];
  for (int state = WALK_USED + 1; state < WALK_STATES; state++) {
    info->ordblks += sums->count[state];
    info->fordblks += sums->bytes[state];
  }
  info->smblks = sums->count[WALK_MAGAZINE];
  info->fsmblks = sums->bytes[WALK_MAGAZINE];
  info->arena = zones_mapped_bytes(&most) + sums->bytes[WALK_RUN];
  info->usmblks = most;
  info->keepcost = sums->bytes[WALK_ZONE] + sums->bytes[WALK_RUN];
  large_count(&info->hblks, &info->hblkhd);
}

void allocator_print_parts(FILE *stream) {
  size_t most, bytes = zones_mapped_bytes(&most);
  fprintf(stream, "<system type=\"current\" size=\"%zu\"/>\n<system type=\"max\" size=\"%zu\"/>\n", bytes, most);
}

/* Empties this thread's magazines and the depots, but not the magazines of other threads. */
int allocator_malloc_trim(size_t keep_bytes) {
  (void)keep_bytes; /* zones are anywhere: there is no end of the heap at which to keep room */
  startup();
  int error = errno;
  cache_empty();
  for (unsigned number = 0; number < CLASSES; number++)
    depot_trim(number);
  bool any = zones_trim();
  any |= runs_trim();
  errno = error;
  return any;
}

/* Accepts glibc's options without effect: what they set does not exist here. */
int allocator_mallopt(int option, int value) {
  startup();
  if (value < 0)
    return 0;
  switch (option) {
  case M_MMAP_THRESHOLD:
    return value <= MMAP_THRESHOLD_MAX;
  case M_MXFAST:
  case M_TRIM_THRESHOLD:
  case M_TOP_PAD:
  case M_MMAP_MAX:
  case M_ARENA_MAX:
  case M_ARENA_TEST:
  case M_CHECK_ACTION:
  case M_PERTURB:
    return 1;
  default:
    return 0;
  }
}

PUBLIC_NAME(int, malloc_trim, (size_t keep_bytes), allocator_malloc_trim);
PUBLIC_NAME(int, mallopt, (int option, int value), allocator_mallopt);

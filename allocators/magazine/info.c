/* SPDX-License-Identifier: MIT */
#include "allocators/common/allocator.h"
#include "allocators/common/entry.h"
#include "allocators/common/startup.h"
#include "allocators/magazine/magazines.h"
#include "allocators/magazine/slab.h"
#include "allocators/magazine/zones.h"

#include <errno.h>

/* The states of a block in the heap walk (common/allocator.h). Large objects are not visited: each has its own run of
   zones. */
enum walk_state {
  WALK_USED,     /* by the program, or as a magazine */
  WALK_MAGAZINE, /* free, in a magazine of some thread or of a depot */
  WALK_SLAB,     /* free, in a zone of its class */
  WALK_FRESH,    /* the end of a zone, of which nothing was handed out yet */
  WALK_ZONE,     /* a whole zone, in the zone magazine */
  WALK_RUN,      /* a run of zones that is kept for large objects */
  WALK_STATES
};

struct visitor {
  void (*visit)(const void *address, size_t bytes, unsigned state, void *context);
  void *context;
};

_Static_assert((int)SLAB_USED == WALK_USED && (int)SLAB_MAGAZINE == WALK_MAGAZINE && (int)SLAB_FREE == WALK_SLAB &&
                   (int)SLAB_FRESH == WALK_FRESH,
               "a slab's states are the first");

static void visit_object(const void *address, size_t bytes, enum slab_state state, void *context) {
  const struct visitor *visitor = context;
  visitor->visit(address, bytes, state, visitor->context);
}

static void visit_zone(const struct zone *zone, void *context) {
  const struct visitor *visitor = context;
  visitor->visit(zone, ZONE_BYTES, WALK_ZONE, visitor->context);
}

static void visit_run(const struct zone *zone, void *context) {
  const struct visitor *visitor = context;
  visitor->visit(zone, zone->run_bytes, WALK_RUN, visitor->context);
}

void heaptape_heap_walk(void (*visit)(const void *address, size_t bytes, unsigned state, void *context),
                        void *context) {
  struct visitor visitor = {visit, context};
  startup();
  for (unsigned number = 0; number < CLASSES; number++)
    slab_walk(number, visit_object, &visitor);
  zones_walk(visit_zone, &visitor);
  runs_walk(visit_run, &visitor);
}

const char *heaptape_heap_walk_state(unsigned state) {
  static const char *const names[] = {"used", "magazine", "slab", "fresh", "zone", "run"};
  _Static_assert(sizeof names / sizeof *names == WALK_STATES, "a name for each");
  return state < WALK_STATES ? names[state] : NULL;
}

/* The rest of the malloc API: figures of the heap, giving memory back, settings (and common/calls.c). */

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

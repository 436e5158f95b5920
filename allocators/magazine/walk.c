/* SPDX-License-Identifier: MIT */
#include "allocators/magazine/walk.h"

#include "allocators/common/allocator.h"
#include "allocators/common/startup.h"
#include "allocators/magazine/zone/runs.h"
#include "allocators/magazine/zone/slab.h"
#include "allocators/magazine/zone/zones.h"

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

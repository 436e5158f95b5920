/* SPDX-License-Identifier: MIT */
/* Every request is counted as served from exactly one place, and every freed object as going to exactly one place. */
#include "allocators/common/entry.h"
#include "allocators/test/counted.h"
#include "core/test/usual.h"

enum { CALLS = 20000, OBJECTS = 100 };

struct counts {
  uint64_t served, freed;
};

static struct counts now(void) {
  /* Objects from drained magazines were freed into these before. */
  uint64_t drained = counted("slab_frees");
  return (struct counts){counted("magazine_hits") + counted("slab_hits") + counted("large_hits"),
                         counted("magazine_frees") + (counted("magazine_frees") ? 0 : drained)};
}

static int check(void) {
  void *objects[OBJECTS] = {NULL};
  unsigned seed = 1;
  uint64_t freed = 0;
  struct counts before = now();
  for (int call = 0; call < CALLS; call++) {
    void **object = &objects[rand_r(&seed) % OBJECTS];
    freed += *object != NULL && allocator_malloc_usable_size(*object) <= 8192;
    allocator_free(*object);
    *object = allocator_malloc(rand_r(&seed) % (call % 100 == 0 ? 300000 : 1500));
  }
  struct counts after = now();
  if (after.served - before.served == CALLS && after.freed - before.freed == freed)
    return 0;
  fprintf(stderr, "%d requests, %lu counted; %lu small frees, %lu counted\n", CALLS, (after.served - before.served),
          freed, (after.freed - before.freed));
  return 1;
}

int main(int argument_count, char **arguments) {
  if (argument_count > 1)
    return check();
  return run_under(arguments, "stats=1", "check") | run_under(arguments, "stats=1:magazines=0", "check") |
         run_under(arguments, "stats=1:previous=0:magazine_size=3", "check");
}

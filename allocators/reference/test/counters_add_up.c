/* SPDX-License-Identifier: MIT */
/* Every request is counted as served from exactly one place; a free into a fast bin costs as many atomic operations as
   documented. */
#include "allocators/common/entry.h"
#include "allocators/test/counted.h"
#include "core/test/usual.h"

enum { CALLS = 20000, OBJECTS = 100 };

static uint64_t served(void) {
  static const char *const places[] = {"tcache_hits", "fast_hits", "small_hits", "remainder_hits",
                                       "large_hits",  "top_hits",  "mapped_hits"};
  uint64_t sum = 0;
  for (size_t index = 0; index < sizeof places / sizeof *places; index++)
    sum += counted(places[index]);
  return sum;
}

static int check_served(void) {
  void *objects[OBJECTS] = {NULL};
  unsigned seed = 1;
  allocator_free(allocator_malloc(1)); /* the cache itself is a request */
  uint64_t before = served();
  for (int call = 0; call < CALLS; call++) {
    void **object = &objects[rand_r(&seed) % OBJECTS];
    allocator_free(*object);
    *object = allocator_malloc(rand_r(&seed) % (call % 100 == 0 ? 300000 : 1500));
  }
  uint64_t change = served() - before;
  if (change == CALLS)
    return 0;
  fprintf(stderr, "%d requests, %lu counted\n", CALLS, change);
  return 1;
}

/* Checks the atomic read-modify-writes of CALLS frees, none of which finds its thread's cache full. */
static int check_atomics(const char *expected_per_free) {
  static void *objects[CALLS];
  for (int index = 0; index < CALLS; index++)
    objects[index] = allocator_malloc(24);
  uint64_t before = counted("atomics");
  for (int index = 0; index < CALLS; index++)
    allocator_free(objects[index]);
  uint64_t change = counted("atomics") - before, expected = (uint64_t)atoi(expected_per_free) * CALLS;
  if (change == expected)
    return 0;
  fprintf(stderr, "%lu atomic operations in %d frees, not %lu\n", change, CALLS, expected);
  return 1;
}

int main(int argument_count, char **arguments) {
  if (argument_count > 1)
    return check_atomics(arguments[1]) | check_served();
  return run_under(arguments, "stats=1:tcache=0:single_thread=0:fastchunks=atomic", "2") |
         run_under(arguments, "stats=1:tcache=0:single_thread=0:fastchunks=relaxed", "1") |
         run_under(arguments, "stats=1:tcache=0", "0") /* one thread */ |
         run_under(arguments, "stats=1:tcache_count=60000:single_thread=0", "0") /* hits of the tcache */;
}

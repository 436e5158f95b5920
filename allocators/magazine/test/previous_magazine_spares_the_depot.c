/* SPDX-License-Identifier: MIT */
/* A thread that frees and requests across the edge of a magazine goes to the depot each time with one magazine, and
   never with two: Bonwick's reason for the second. */
#include "allocators/common/entry.h"
#include "allocators/test/counted.h"
#include "core/test/usual.h"

enum { ROUNDS = 16, TURNS = 1000, BYTES = 24 };

static uint64_t visits(void) {
  return counted("depot_hits") + counted("depot_misses") + counted("depot_frees");
}

/* Frees three objects and requests three, TURNS times; repeats this with one object more in the magazines, ROUNDS
   times, so that the edge of a magazine is between the three at some time. */
static uint64_t visits_at_the_edge(void) {
  static void *objects[6 * ROUNDS];
  for (int index = 0; index < 6 * ROUNDS; index++)
    objects[index] = allocator_malloc(BYTES);
  for (int index = 0; index < 4 * ROUNDS; index++)
    allocator_free(objects[index]);
  void **extra = &objects[5 * ROUNDS];
  uint64_t before = visits();
  for (int round = 0; round < ROUNDS; round++) {
    for (int turn = 0; turn < TURNS; turn++) {
      for (int index = 0; index < 3; index++)
        allocator_free(extra[index]);
      for (int index = 0; index < 3; index++)
        extra[index] = allocator_malloc(BYTES);
    }
    allocator_free(objects[4 * ROUNDS + round]);
  }
  return visits() - before;
}

int main(int argument_count, char **arguments) {
  if (argument_count == 1)
    return run_under(arguments, "stats=1:magazine_size=16", "two") |
           run_under(arguments, "stats=1:magazine_size=16:previous=0", "one");
  uint64_t made = visits_at_the_edge();
  int wrong = strcmp(arguments[1], "two") == 0 ? made > ROUNDS : made < TURNS;
  if (wrong)
    fprintf(stderr, "%lu visits to the depot in %d turns\n", made, TURNS);
  return wrong;
}

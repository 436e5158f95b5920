/* SPDX-License-Identifier: MIT */
/* Among free chunks of any sizes, a request gets the smallest that is large enough: the bins are sorted, and the bits
   for non-empty bins are correct. */
#include "allocators/common/entry.h"
#include "allocators/test/counted.h"
#include "core/test/usual.h"

enum { ROUNDS = 200, HOLES = 12, REQUESTS = 50 };

struct hole {
  char *object;
  size_t usable_bytes;
};

/* Returns a size of any order of magnitude up to 64 KiB. */
static size_t random_bytes(unsigned *seed) {
  unsigned bits = 5 + (unsigned)rand_r(seed) % 12;
  return (size_t)rand_r(seed) % (1u << bits);
}

/* Returns the usable bytes of the smallest hole that has room; SIZE_MAX: none. */
static size_t best_fit(const struct hole *holes, size_t object_bytes) {
  size_t best = SIZE_MAX;
  for (const struct hole *hole = holes; hole < holes + HOLES; hole++)
    if (hole->usable_bytes >= object_bytes && hole->usable_bytes < best)
      best = hole->usable_bytes;
  return best;
}

static size_t usable_bytes_of(const struct hole *holes, const char *object) {
  for (const struct hole *hole = holes; hole < holes + HOLES; hole++)
    if (hole->object == object)
      return hole->usable_bytes;
  return SIZE_MAX;
}

/* The object is freed at once, so its chunk is whole again. */
static int check_request(const struct hole *holes, size_t object_bytes) {
  char *object = allocator_malloc(object_bytes);
  size_t got = usable_bytes_of(holes, object), wanted = best_fit(holes, object_bytes);
  allocator_free(object);
  if (got == wanted)
    return 0;
  fprintf(stderr, "%zu bytes were not from the chunk of %zu usable bytes but of %zu\n", object_bytes, wanted, got);
  return 1;
}

static int check_round(unsigned seed) {
  struct hole holes[HOLES];
  void *between[HOLES]; /* separate them when they are free */
  for (int index = 0; index < HOLES; index++) {
    char *object = allocator_malloc(random_bytes(&seed));
    holes[index] = (struct hole){object, allocator_malloc_usable_size(object)};
    between[index] = allocator_malloc(24);
  }
  for (int index = 0; index < HOLES; index++)
    allocator_free(holes[index].object);
  int failures = 0;
  for (int request = 0; request < REQUESTS; request++)
    failures += check_request(holes, random_bytes(&seed));
  for (int index = 0; index < HOLES; index++)
    allocator_free(between[index]);
  return failures;
}

int main(int argument_count, char **arguments) {
  if (argument_count == 1)
    return run_under(arguments, "tcache=0:fastbins=0", "");
  int failures = 0;
  for (unsigned round = 1; round <= ROUNDS; round++)
    failures += check_round(round);
  return failures > 0;
}

/* SPDX-License-Identifier: MIT */
/* With tcache_on_request, a thread keeps what it frees only of sizes that it has requested, small or large, by malloc
   or calloc; without it, of all sizes. */
#include "allocators/common/entry.h"
#include "allocators/test/counted.h"
#include "core/test/usual.h"

enum { SIZES = 3, EACH = 4 };
static const size_t bytes[SIZES] = {40, 900, 5000};
static void *objects[SIZES][EACH];

static void take(void) {
  for (int i = 0; i < SIZES; i++)
    for (int k = 0; k < EACH; k++)
      objects[i][k] = k % 2 ? allocator_malloc(bytes[i]) : allocator_calloc(1, bytes[i]);
}

/* Returns how many of them this thread's cache keeps. */
static uint64_t give(void) {
  uint64_t before = counted("tcache_frees");
  for (int i = 0; i < SIZES; i++)
    for (int k = 0; k < EACH; k++)
      allocator_free(objects[i][k]);
  return counted("tcache_frees") - before;
}

/* Frees what it has not requested; the same once it has requested one of each size; then requests all. */
static void *other(void *kept) {
  uint64_t *kept_first = kept;
  allocator_free(allocator_malloc(200));
  *kept_first = give();
  for (int i = 0; i < SIZES; i++)
    allocator_free(i % 2 ? allocator_malloc(bytes[i]) : allocator_calloc(1, bytes[i]));
  take();
  if (give() != SIZES * EACH)
    return NULL;
  uint64_t hits = counted("tcache_hits");
  take();
  return counted("tcache_hits") - hits == SIZES * EACH ? kept : NULL;
}

int main(int argument_count, char **arguments) {
  if (argument_count == 1)
    return run_under(arguments, "stats=1:tcache_large=65536:tcache_on_request=1", "on") |
           run_under(arguments, "stats=1:tcache_large=65536:tcache_on_request=1:fastbins=0", "on") |
           run_under(arguments, "stats=1:tcache_large=65536", "off");
  bool on = strcmp(arguments[1], "on") == 0;
  uint64_t kept_first;
  void *result;
  pthread_t thread;
  take();
  if (pthread_create(&thread, NULL, other, &kept_first) != 0 || pthread_join(thread, &result) != 0 || !result)
    return 1;
  return kept_first == (on ? 0 : SIZES * EACH) ? 0 : 2;
}

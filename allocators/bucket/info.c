/* SPDX-License-Identifier: MIT */
#include "allocators/bucket/block.h"
#include "allocators/bucket/buckets.h"
#include "allocators/bucket/oversize.h"
#include "allocators/common/allocator.h"
#include "allocators/common/entry.h"
#include "allocators/common/startup.h"

#include <errno.h>

/* The rest of the malloc API (most of it: common/calls.c), and the heap walk. */

static bool purge_cache(struct cache *cache, void *any) {
  *(bool *)any |= cache_purge(cache);
  return true;
}

int allocator_malloc_trim(size_t keep_bytes) {
  (void)keep_bytes; /* at the end of the heap: there is no such end */
  startup();
  int error = errno;
  bool any = false;
  buckets_each_cache(purge_cache, &any);
  any |= oversize_purge();
  errno = error;
  return any;
}

/* There is nothing to set: no thresholds, no fast bins. */
int allocator_mallopt(int option, int value) {
  (void)option;
  (void)value;
  return 0;
}

void allocator_summarize(const struct heap_sums *sums, struct mallinfo2 *info) {
  info->arena = info->usmblks = system_bytes();
  info->uordblks = sums->bytes[STATE_USED];
  for (int state = STATE_CACHED; state < STATES; state++) {
    info->ordblks += sums->count[state];
    info->fordblks += sums->bytes[state];
  }
}

void allocator_print_parts(FILE *stream) {
  buckets_print(stream);
}

struct visitor {
  cache_visit *visit;
  void *context;
};

static bool walk_cache(struct cache *cache, void *context) {
  const struct visitor *visitor = context;
  cache_walk(cache, visitor->visit, visitor->context);
  return true;
}

void heaptape_heap_walk(cache_visit *visit, void *context) {
  struct visitor visitor = {visit, context};
  startup();
  buckets_each_cache(walk_cache, &visitor);
  oversize_walk(visit, context);
}

const char *heaptape_heap_walk_state(unsigned state) {
  static const char *const names[] = {"used", "cached", "unused", "oversize"};
  _Static_assert(sizeof names / sizeof *names == STATES, "a name for each");
  return state < STATES ? names[state] : NULL;
}

PUBLIC_NAME(int, malloc_trim, (size_t keep_bytes), allocator_malloc_trim);
PUBLIC_NAME(int, mallopt, (int option, int value), allocator_mallopt);

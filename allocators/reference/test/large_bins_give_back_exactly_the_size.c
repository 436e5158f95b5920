/* SPDX-License-Identifier: MIT */
/* A tcache with bins of many sizes serves a large request from a freed object of exactly its size, whatever else is in
   the bin and in whichever order it came; others, and what finds no room, go to the arena. */
#include "allocators/common/entry.h"
#include "allocators/test/counted.h"

enum { SIZES = 6, COUNT_OF_EACH = 16 };
static const size_t bytes[SIZES] = {5000, 4200, 8000, 4096, 6000, 5008};

int main(int argument_count, char **arguments) {
  if (argument_count == 1)
    return run_under(arguments, "stats=1:tcache_large=65536:mmap_threshold=1048576", "");
  void *object[SIZES], *barrier;
  for (int i = 0; i < SIZES; i++) {
    object[i] = allocator_malloc(bytes[i]);
    barrier = allocator_malloc(24);
  }
  for (int i = 0; i < SIZES; i++)
    allocator_free(object[i]);
  if (counted("tcache_frees") != SIZES)
    return 1;
  uint64_t before = counted("tcache_hits");
  if (allocator_malloc(5500) == object[2]) /* not of exactly that size */
    return 2;
  for (int i = SIZES; i-- > 0;)
    if (allocator_malloc(bytes[i]) != object[i])
      return 3;
  if (counted("tcache_hits") != before + SIZES)
    return 4;
  void *same[COUNT_OF_EACH + 4];
  for (int i = 0; i < COUNT_OF_EACH + 4; i++)
    same[i] = allocator_malloc(7000);
  uint64_t freed = counted("tcache_frees");
  for (int i = 0; i < COUNT_OF_EACH + 4; i++)
    allocator_free(same[i]);
  allocator_free(barrier);
  return counted("tcache_frees") == freed + COUNT_OF_EACH + 1 ? 0 : 5;
}

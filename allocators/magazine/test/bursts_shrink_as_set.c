/* SPDX-License-Identifier: MIT */
/* The zone magazine maps as many zones at once as its tunables say, and sheds down to the low mark when it is full. */
#include "allocators/common/entry.h"
#include "allocators/test/counted.h"
#include "core/test/usual.h"

enum { ZONES = 100, OBJECT_BYTES = 40000 /* a zone each */ };

/* Zones are taken one by one; each burst that this causes must be the next expected one, and the last one repeats. */
static int check_bursts(const char *expected) {
  for (int zone = 0; zone < ZONES; zone++) {
    uint64_t mapped = counted("zones_mapped"), calls = counted("mmaps");
    if (!allocator_malloc(OBJECT_BYTES))
      return 2;
    uint64_t burst = counted("zones_mapped") - mapped;
    if (burst == 0)
      continue;
    char *end;
    uint64_t wanted = strtoull(expected, &end, 10);
    if (burst != wanted || counted("mmaps") == calls) {
      fprintf(stderr, "a burst of %lu, not %lu\n", burst, wanted);
      return 1;
    }
    expected = *end ? end : expected;
  }
  return 0;
}

/* The magazine holds 64 zones: the 65th free sheds 16, and so does each 16th free after it. */
static int check_shedding(void) {
  static void *objects[ZONES];
  for (int zone = 0; zone < ZONES; zone++)
    objects[zone] = allocator_malloc(OBJECT_BYTES);
  for (int zone = 0; zone < ZONES; zone++) {
    allocator_free(objects[zone]);
    uint64_t freed = (uint64_t)zone + 1, wanted = freed <= 64 ? 0 : ((freed - 65) / 16 + 1) * 16;
    if (counted("zones_shed") != wanted) {
      fprintf(stderr, "%lu zones freed, %lu shed, not %lu\n", freed, counted("zones_shed"), wanted);
      return 1;
    }
  }
  return 0;
}

int main(int argument_count, char **arguments) {
  if (argument_count > 1)
    return strcmp(arguments[1], "shed") == 0 ? check_shedding() : check_bursts(arguments[1]);
  /* Allocations of libc and of the test itself cause the first burst, so these begin with the second. */
  return run_under(arguments, "stats=1", "8 4 2 1") | run_under(arguments, "stats=1:burst=1", "1") |
         run_under(arguments, "stats=1:burst=6:burst_scale=subtract", "6 5 4 3 2 1") |
         run_under(arguments, "stats=1:burst_scale=none", "8") | run_under(arguments, "stats=1:zone_cache=0", "1") |
         run_under(arguments, "stats=1:burst=1", "shed");
}

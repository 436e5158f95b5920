/* SPDX-License-Identifier: MIT */
/* Live objects that share a granule are found, and no others, whatever was added and removed before: against a map of
   granules. Most objects are small; some cross tiles, some are large. Memory is that of live objects alone. */
#include "convert/history/ranges.h"
#include "core/base/split_mix.h"
#include "core/test/check.h"

enum { OBJECTS = 300, GRANULE_BYTES = 8, GRANULES = 1 << 16, ROUNDS = 100000 };

static struct { uint64_t first, count; } objects[OBJECTS];
static char taken[GRANULES];

static size_t memory_bytes(void) {
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

int main(void) {
  struct ranges *ranges = ranges_new();
  CHECK(ranges, "no memory");
  uint64_t random = 7, overlaps = 0;
  for (int round = 0; round < ROUNDS; round++) {
    size_t i = (size_t)test_below(&random, OBJECTS);
    if (objects[i].count) {
      ranges_remove(ranges, objects[i].first * GRANULE_BYTES, objects[i].count * GRANULE_BYTES);
      memset(taken + objects[i].first, 0, objects[i].count);
      objects[i].count = 0;
      continue;
    }
    uint64_t count = 1 + test_below(&random, test_below(&random, 50) ? 8 : 10000);
    uint64_t first = test_below(&random, GRANULES - count);
    bool shares = memchr(taken + first, 1, count);
    enum ranges_result found = ranges_add(ranges, first * GRANULE_BYTES, count * GRANULE_BYTES);
    CHECK(found == (shares ? RANGES_OVERLAP : RANGES_ADDED), "round %d: %lu granules from %lu", round, count, first);
    overlaps += shares;
    if (shares)
      continue;
    memset(taken + first, 1, count);
    objects[i].first = first;
    objects[i].count = count;
  }
  CHECK(overlaps > ROUNDS / 100 && overlaps < ROUNDS / 2, "%lu overlaps", overlaps);

  size_t before = memory_bytes();
  for (uint64_t place = 1; place <= 10000; place++) {
    CHECK(ranges_add(ranges, place << 24, 40) == RANGES_ADDED, "object %lu", place);
    ranges_remove(ranges, place << 24, 40);
  }
  CHECK(memory_bytes() < before + (1 << 20), "%zu bytes instead of %zu", memory_bytes(), before);
  ranges_free(ranges);
  return 0;
}

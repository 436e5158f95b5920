/* SPDX-License-Identifier: MIT */
/* Random items of the stream of data accesses: calls of several threads, accesses to objects that some call acquired
   (recent ones, old ones, the same ones again), inside and outside of them, and to other memory near and far. */
#pragma once

#include "core/test/check.h"
#include "core/trace/access_stream.h"

struct access_generator {
  uint64_t random;
  uint64_t acquired;
  uint64_t objects[200], pages[200]; /* accessed before: more than fit in the format's list and codes */
  uint32_t object_count, page_count;
  uint32_t call_every;
  uint32_t spread; /* how many of those to draw from */
};

static inline int64_t generate_granule(struct access_generator *g) {
  uint64_t bits = test_below(&g->random, 60);
  int64_t granule = (int64_t)(split_mix_next(&g->random) >> 5 >> (59 - bits)); /* below 2^bits */
  return test_below(&g->random, 8)   ? granule & 0xff
         : test_below(&g->random, 2) ? granule
                                     : -granule - (granule < (1ll << 59) - 1);
}

static inline struct access_item generate_access(struct access_generator *g) {
  struct access_item item = {0};
  uint64_t sort = test_below(&g->random, g->call_every);
  if (sort == 0) {
    item.kind = ACCESS_EVENT;
    item.thread = (uint32_t)(test_below(&g->random, 20) ? test_below(&g->random, 4) : test_below(&g->random, 1 << 24));
    item.acquires = test_below(&g->random, 2);
    item.stack_pointer = test_below(&g->random, 20) ? 0x7ffff0000000 - 8 * test_below(&g->random, 1000)
                                                    : split_mix_next(&g->random) & ~(uint64_t)7;
    g->acquired += item.acquires;
  } else if (g->acquired && sort % 3) {
    uint64_t slot = test_below(&g->random, g->spread);
    if (slot >= g->object_count || test_below(&g->random, 10) == 0) {
      slot = slot < g->object_count ? slot : g->object_count++;
      g->objects[slot] = test_below(&g->random, 2) ? test_below(&g->random, g->acquired) : g->acquired - 1;
    }
    item.kind = ACCESS_OBJECT;
    item.object = g->objects[slot];
    item.granule = generate_granule(g);
  } else {
    uint64_t slot = test_below(&g->random, g->spread);
    if (slot >= g->page_count || test_below(&g->random, 10) == 0) {
      slot = slot < g->page_count ? slot : g->page_count++;
      g->pages[slot] = split_mix_next(&g->random) >> 12 >> test_below(&g->random, 52);
    }
    item.kind = ACCESS_OTHER;
    item.granule = (int64_t)(g->pages[slot] << 8 | test_below(&g->random, 256));
  }
  return item;
}

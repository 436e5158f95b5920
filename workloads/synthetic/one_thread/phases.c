/* SPDX-License-Identifier: MIT */
/* A program in phases: each fills the heap with objects of its own size range, then frees all but every n-th, in random
   order; those stay and pin the memory around them. The next phase's sizes do not fit the holes well. Shows
   fragmentation, and how much memory an allocator gives back. One thread.

   Shape after the worst cases of Robson (1971, 1977), as measured in programs by Johnstone and Wilson ("The memory
   fragmentation problem: solved?", ISMM 1998): survivors of one phase are among the holes of the next. */
#include "workloads/synthetic/pattern.h"

static uint64_t phases = 8, objects = 20000, keep_every = 50, base_bytes = 24;

static void shuffle(struct rng *rng, object_ref *table) {
  for (uint64_t i = objects - 1; i > 0; i--) {
    uint64_t other = rng_below(rng, i + 1);
    object_ref swapped = table[i];
    table[i] = table[other];
    table[other] = swapped;
  }
}

static void run(struct actor *actor) {
  struct rng rng = rng_seed(pattern_seed, 0);
  uint64_t survivors = 0, size_bytes = base_bytes;
  object_ref *table = pattern_array(objects, sizeof *table);
  object_ref *survivor = pattern_array(phases * (objects / keep_every + 1), sizeof *survivor);
  for (uint64_t phase = 0; phase < phases; phase++, size_bytes += size_bytes / 2) {
    for (uint64_t i = 0; i < objects; i++)
      table[i] = do_malloc(actor, rng_between(&rng, size_bytes, 2 * size_bytes));
    shuffle(&rng, table);
    for (uint64_t i = 0; i < objects; i++) {
      if (i % keep_every == 0)
        survivor[survivors++] = table[i];
      else
        do_free(actor, table[i]);
    }
  }
  for (uint64_t i = 0; i < survivors; i++)
    do_free(actor, survivor[i]);
}

static const struct option_number options[] = {
    {"phases", &phases, 1, 64, "each with sizes half as large again as the previous one"},
    {"objects", &objects, 1, 1ull << 32, "of a phase"},
    {"keep-every", &keep_every, 1, 1ull << 32, "one object in this many outlives its phase"},
    {"base", &base_bytes, 1, 1ull << 20, "sizes of the first phase, in bytes"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {
    .summary = "phases of different sizes that leave survivors behind", .options = options, .run = run};

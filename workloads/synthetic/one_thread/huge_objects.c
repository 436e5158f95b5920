/* SPDX-License-Identifier: MIT */
/* Huge objects: a few buffers from a megabyte to many, replaced one by one, resized now and then. Where an allocator
   maps each separately, system calls, page faults and how soon memory is given back matter. --fill=1 writes to every OS
   page of each, as programs that need such buffers do.

   Our own shape, for image and video work, numerical arrays, and parsers that read files whole. */
#include "workloads/synthetic/pattern.h"

static uint64_t rounds = 500, slots = 8, lowest_bytes = 1 << 20, highest_bytes = 16 << 20, resized_percent = 20,
                fill = 0;

static void run(struct actor *actor) {
  struct rng rng = rng_seed(pattern_seed, 0);
  object_ref *table = pattern_array(slots, sizeof *table);
  actor->fills = fill;
  for (uint64_t i = 0; i < rounds; i++) {
    object_ref *place = &table[rng_below(&rng, slots)];
    size_t size_bytes = rng_log_between(&rng, lowest_bytes, highest_bytes);
    if (*place && rng_below(&rng, 100) < resized_percent) {
      *place = do_realloc(actor, *place, size_bytes);
      continue;
    }
    if (*place)
      do_free(actor, *place);
    *place = do_malloc(actor, size_bytes);
  }
  free_all(actor, table, slots);
}

static const struct option_number options[] = {
    {"rounds", &rounds, 0, UINT64_MAX, "objects replaced or resized"},
    {"slots", &slots, 1, 1 << 20, "objects at a time"},
    {"lowest", &lowest_bytes, 1, 1ull << 40, "smallest request in bytes"},
    {"highest", &highest_bytes, 1, 1ull << 40, "largest request in bytes"},
    {"resized", &resized_percent, 0, 100, "percent of the rounds that resize instead"},
    {"fill", &fill, 0, 1, "1: write to every OS page, not to the ends only"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {.summary = "a few huge objects, replaced and resized", .options = options, .run = run};

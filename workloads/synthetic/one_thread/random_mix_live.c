/* SPDX-License-Identifier: MIT */
/* The second of two worst-case mixes: a table of places that is alternately nearly empty and nearly full, with the
   place and size of each call at random, sizes with a uniform logarithm. Where random_mix keeps the same number of live
   objects, here the live bytes rise and fall in waves, so that an allocator has to take memory, use it in scattered
   places and give it back. One thread.

   Shape after the random test programs among the tcache benchmarks (glibc, 2017). */
#include "workloads/synthetic/pattern.h"

static uint64_t rounds = 200000, slots = 5000, size_bits = 14, waves = 4, lowest_percent = 10, highest_percent = 90;

/* The share of places to be full at a step, in percent: a triangle for each wave. */
static uint64_t wanted_percent(uint64_t round) {
  uint64_t wave_rounds = rounds / waves ? rounds / waves : 1;
  uint64_t phase = round % wave_rounds, half = wave_rounds / 2 ? wave_rounds / 2 : 1;
  uint64_t height = phase < half ? phase : wave_rounds - phase;
  return lowest_percent + (highest_percent - lowest_percent) * height / half;
}

static void run(struct actor *actor) {
  struct rng rng = rng_seed(pattern_seed, 0);
  object_ref *table = pattern_array(slots, sizeof *table);
  for (uint64_t i = 0; i < rounds; i++) {
    object_ref *place = &table[rng_below(&rng, slots)];
    bool fill = rng_below(&rng, 100) < wanted_percent(i);
    if (*place && fill && rng_below(&rng, 4) == 0) {
      *place = do_realloc(actor, *place, rng_log_size(&rng, (unsigned)size_bits));
      continue;
    }
    if (*place)
      do_free(actor, *place);
    *place = fill ? do_malloc(actor, rng_log_size(&rng, (unsigned)size_bits)) : 0;
  }
  free_all(actor, table, slots);
}

static const struct option_number options[] = {
    {"rounds", &rounds, 0, UINT64_MAX, "steps of the mix"},
    {"slots", &slots, 1, 1ull << 32, "places for live objects"},
    {"size-bits", &size_bits, 1, 40, "requests below 2^(this) bytes"},
    {"waves", &waves, 1, UINT32_MAX, "times the live bytes rise and fall"},
    {"lowest", &lowest_percent, 0, 100, "percent of the places that are full between two waves"},
    {"highest", &highest_percent, 0, 100, "percent of the places that are full at the top of a wave"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {
    .summary = "random calls whose live bytes rise and fall in waves", .options = options, .run = run};

/* SPDX-License-Identifier: MIT */
/* One thread: all calls, at random. */
#include "workloads/synthetic/pattern.h"

/* Options; each pattern sets those that it has. */
static uint64_t rounds, slots, size_bits, odd, waves, lowest_percent, highest_percent;

/* Every C entry point of the malloc API in random order on a table of objects, sizes with a uniform logarithm: the
   first of two worst-case mixes, in which neither sizes nor order help an allocator. With --odd=1 it also makes calls
   that are rare in programs: size 0, free(NULL), requests that fail, realloc to 0 (a workload leaves out the calls that
   fail). One thread.

   Shape after the random test programs among the tcache benchmarks (the second is random_mix_live). */

static object_ref allocate(struct actor *actor, struct rng *rng) {
  size_t size_bytes = rng_log_size(rng, (unsigned)size_bits);
  size_t alignment = (size_t)16 << rng_below(rng, 9);
  switch (rng_below(rng, 16)) {
  case 0:
  case 1: {
    uint64_t count = 1 + rng_below(rng, 100);
    return do_calloc(actor, count, size_bytes / count + 1);
  }
  case 2:
    return do_aligned(actor, CALL_memalign, alignment, size_bytes);
  case 3:
    return do_aligned(actor, CALL_posix_memalign, alignment, size_bytes);
  case 4:
    return do_aligned(actor, CALL_aligned_alloc, alignment, (size_bytes + alignment - 1) & -alignment);
  case 5:
    return do_os_page_aligned(actor, CALL_valloc, size_bytes);
  case 6:
    return do_os_page_aligned(actor, CALL_pvalloc, size_bytes);
  case 7:
    return do_realloc(actor, 0, size_bytes);
  default:
    return do_malloc(actor, size_bytes);
  }
}

static object_ref replace(struct actor *actor, struct rng *rng, object_ref old) {
  size_t size_bytes = rng_log_size(rng, (unsigned)size_bits);
  switch (rng_below(rng, 8)) {
  case 0:
  case 1:
    return do_realloc(actor, old, size_bytes);
  case 2: {
    uint64_t count = 1 + rng_below(rng, 100);
    return do_reallocarray(actor, old, count, size_bytes / count + 1);
  }
  case 3:
    do_measure(actor, old);
    return old;
  default:
    do_free(actor, old);
    return allocate(actor, rng);
  }
}

/* Hides from the compiler that a request is absurd. */
static size_t opaque(size_t value) {
  __asm__ volatile("" : "+r"(value));
  return value;
}

/* Calls that must fail and change nothing. */
static void fail_call(struct actor *actor, unsigned which, object_ref old) {
  void *result = NULL;
  actor->calls++;
  if (actor->script)
    return;
  switch (which) {
  case 0:
    result = malloc(opaque(SIZE_MAX / 2));
    break;
  case 1:
    result = calloc(opaque(SIZE_MAX / 2), opaque(3));
    break;
  case 2:
    if (posix_memalign(&result, opaque(3), 100) == 0)
      abort();
    return;
  default:
    result = realloc((void *)old, opaque(SIZE_MAX / 2));
    break;
  }
  if (result)
    abort();
}

static object_ref odd_call(struct actor *actor, struct rng *rng, object_ref old) {
  unsigned which = (unsigned)rng_below(rng, 7);
  if (which == 0) {
    do_free(actor, opaque(0)); /* the compiler would leave out a plain free(NULL) */
  } else if (which == 1) {
    do_free(actor, old);
    return do_malloc(actor, opaque(0));
  } else if (which == 2) {
    object_ref result = do_realloc(actor, old, opaque(0));
    return result ? result : allocate(actor, rng); /* 0: freed, as in the C library */
  } else {
    fail_call(actor, which - 3, old);
  }
  return old;
}

static void random_mix_run(struct actor *actor) {
  struct rng rng = rng_seed(pattern_seed, 0);
  object_ref *table = pattern_array(slots, sizeof *table);
  for (uint64_t i = 0; i < slots; i++)
    table[i] = allocate(actor, &rng);
  for (uint64_t i = 0; i < rounds; i++) {
    object_ref *victim = &table[rng_below(&rng, slots)];
    *victim = odd && rng_below(&rng, 16) == 0 ? odd_call(actor, &rng, *victim) : replace(actor, &rng, *victim);
  }
  free_all(actor, table, slots);
}

static const struct option_number random_mix_options[] = {
    {"rounds", &rounds, 100000, 0, UINT64_MAX, "steps of the mix"},
    {"slots", &slots, 1000, 1, 1ull << 32, "live objects"},
    {"size-bits", &size_bits, 16, 1, 40, "requests below 2^(this) bytes"},
    {"odd", &odd, 0, 0, 1, "1: failing, empty and NULL calls too"},
    {0},
};

const struct pattern pattern_random_mix = {"random_mix", "all entry points in random order, one thread",
                                           random_mix_options, random_mix_run};

/* The second of two worst-case mixes: a table of places that is alternately nearly empty and nearly full, with the
   place and size of each call at random, sizes with a uniform logarithm. Where random_mix keeps the same number of live
   objects, here the live bytes rise and fall in waves, so that an allocator has to take memory, use it in scattered
   places and give it back. One thread.

   Shape after the random test programs among the tcache benchmarks (glibc, 2017). */

/* The share of places to be full at a step, in percent: a triangle for each wave. */
static uint64_t wanted_percent(uint64_t round) {
  uint64_t wave_rounds = rounds / waves ? rounds / waves : 1;
  uint64_t phase = round % wave_rounds, half = wave_rounds / 2 ? wave_rounds / 2 : 1;
  uint64_t height = phase < half ? phase : wave_rounds - phase;
  return lowest_percent + (highest_percent - lowest_percent) * height / half;
}

static void random_mix_live_run(struct actor *actor) {
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

static const struct option_number random_mix_live_options[] = {
    {"rounds", &rounds, 200000, 0, UINT64_MAX, "steps of the mix"},
    {"slots", &slots, 5000, 1, 1ull << 32, "places for live objects"},
    {"size-bits", &size_bits, 14, 1, 40, "requests below 2^(this) bytes"},
    {"waves", &waves, 4, 1, UINT32_MAX, "times the live bytes rise and fall"},
    {"lowest", &lowest_percent, 10, 0, 100, "percent of the places that are full between two waves"},
    {"highest", &highest_percent, 90, 0, 100, "percent of the places that are full at the top of a wave"},
    {0},
};

const struct pattern pattern_random_mix_live = {"random_mix_live",
                                                "random calls whose live bytes rise and fall in waves",
                                                random_mix_live_options, random_mix_live_run};

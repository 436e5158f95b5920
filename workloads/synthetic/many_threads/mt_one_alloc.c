/* SPDX-License-Identifier: MIT */
/* One-allocation stress across many threads: each thread holds at most one object at any time, and requests the next as
   soon as it has freed the last. With nothing to search and nothing to merge, only the allocator's fast path matters,
   and the state that threads share.

   Shape after mt_test_one_alloc, one of the nine workloads of the tcache benchmarks (glibc, 2017). */
#include "workloads/synthetic/pattern.h"

static uint64_t threads = 16, rounds = 100000, lowest_bytes = 16, highest_bytes = 1024;

struct member {
  struct actor actor;
  uint64_t number;
};

static void one_at_a_time(struct actor *actor, void *argument) {
  const struct member *member = argument;
  struct rng rng = rng_seed(pattern_seed, member->number);
  for (uint64_t i = 0; i < rounds; i++)
    do_free(actor, do_malloc(actor, rng_between(&rng, lowest_bytes, highest_bytes)));
}

static void run(struct actor *actor) {
  struct member *member = pattern_array(threads, sizeof *member);
  for (uint64_t t = 0; t < threads; t++) {
    member[t].number = t;
  }
  actors_run(actor, threads, one_at_a_time, member, sizeof *member);
}

static const struct option_number options[] = {
    {"threads", &threads, 1, 30000, "all at once"},
    {"rounds", &rounds, 0, UINT64_MAX, "objects of each thread, one after the other"},
    {"lowest", &lowest_bytes, 1, 1ull << 40, "smallest request in bytes"},
    {"highest", &highest_bytes, 1, 1ull << 40, "largest request in bytes"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {
    .summary = "many threads with one object each at a time", .options = options, .run = run};

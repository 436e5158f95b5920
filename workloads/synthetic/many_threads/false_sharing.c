/* SPDX-License-Identifier: MIT */
/* Small objects that threads write to again and again: if an allocator puts two threads' objects on one cache line,
   they slow each other down. Each round a thread allocates an object of a few bytes, writes to it --writes times, and
   frees it. With --passive=1 the main thread allocates the objects of the first round, one after the other, and hands
   them out, so that neighbours belong to different threads.

   The third test of Lever and Boreham, "malloc() performance in a multithreaded Linux environment" (USENIX 2000,
   Freenix track): objects of 3 to 52 bytes, written a hundred million times. Active and passive are the terms of Berger
   et al. (Hoard, ASPLOS 2000). A workload holds the calls only, not the writes. */
#include "workloads/synthetic/pattern.h"

static uint64_t threads = 4, rounds = 1000, writes = 1000, lowest_bytes = 3, highest_bytes = 52, passive = 0;

struct member {
  struct actor actor;
  uint64_t number;
  object_ref first; /* of the main thread */
};

static void write_often(struct actor *actor, object_ref object) {
  if (actor->script)
    return;
  volatile char *byte = (volatile char *)object;
  for (uint64_t i = 0; i < writes; i++)
    *byte = (char)i;
}

static void work(struct actor *actor, void *argument) {
  const struct member *member = argument;
  struct rng rng = rng_seed(pattern_seed, member->number);
  for (uint64_t i = 0; i < rounds; i++) {
    size_t size_bytes = rng_between(&rng, lowest_bytes, highest_bytes);
    object_ref object = i == 0 && member->first ? member->first : do_malloc(actor, size_bytes);
    write_often(actor, object);
    do_free(actor, object);
  }
}

static void run(struct actor *actor) {
  struct member *member = pattern_array(threads, sizeof *member);
  struct rng rng = rng_seed(pattern_seed, threads);
  for (uint64_t t = 0; t < threads; t++) {
    member[t].number = t;
    if (passive && rounds)
      member[t].first = do_malloc(actor, rng_between(&rng, lowest_bytes, highest_bytes));
  }
  actors_run(actor, threads, work, member, sizeof *member);
}

static const struct option_number options[] = {
    {"threads", &threads, 1, 30000, "all at once"},
    {"rounds", &rounds, 0, UINT64_MAX, "objects of each thread, one after the other"},
    {"writes", &writes, 0, UINT64_MAX, "to each object"},
    {"lowest", &lowest_bytes, 1, 4096, "smallest request in bytes"},
    {"highest", &highest_bytes, 1, 4096, "largest request in bytes"},
    {"passive", &passive, 0, 1, "1: the first objects come from the main thread"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {
    .summary = "small objects of several threads, written to often", .options = options, .run = run};

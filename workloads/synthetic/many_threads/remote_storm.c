/* SPDX-License-Identifier: MIT */
/* Threads exchange objects through one small table as fast as they can: an object that a thread finds in a slot it
   frees, resizes or measures, whichever thread allocated it. Addresses pass between threads all the time and are handed
   out again at once, so that any error in a recorder's order shows.

   Our own shape, not that of a program. The one pattern in which a thread's calls depend on which thread was faster:
   runs, and the workload file, agree in their distribution only. */
#include "workloads/synthetic/pattern.h"

#include <stdatomic.h>

static uint64_t threads = 4, slots = 64, rounds = 100000, highest_bytes = 256;

static _Atomic(object_ref) *table;

static object_ref allocate(struct actor *actor, struct rng *rng) {
  size_t size_bytes = rng_between(rng, 1, highest_bytes);
  size_t alignment = (size_t)16 << rng_below(rng, 4);
  switch (rng_below(rng, 8)) {
  case 0:
    return do_calloc(actor, 1 + rng_below(rng, 4), size_bytes);
  case 1:
    return do_aligned(actor, CALL_memalign, alignment, size_bytes);
  case 2:
    return do_aligned(actor, CALL_posix_memalign, alignment, size_bytes);
  case 3:
    return do_aligned(actor, CALL_aligned_alloc, alignment, size_bytes * alignment);
  case 4:
    return do_realloc(actor, 0, size_bytes);
  default:
    return do_malloc(actor, size_bytes);
  }
}

/* Resizes the object and returns it, or frees it and returns 0. */
static object_ref let_go(struct actor *actor, struct rng *rng, object_ref found) {
  size_t size_bytes = rng_between(rng, 1, highest_bytes);
  switch (rng_below(rng, 8)) {
  case 0:
    return do_realloc(actor, found, size_bytes);
  case 1:
    return do_reallocarray(actor, found, 2, size_bytes);
  case 2:
    do_measure(actor, found);
    break;
  default:
    break;
  }
  do_free(actor, found);
  return 0;
}

struct member {
  struct actor actor;
  uint64_t number;
};

static void storm(struct actor *actor, void *argument) {
  const struct member *member = argument;
  struct rng rng = rng_seed(pattern_seed, member->number);
  object_ref mine = 0;
  for (uint64_t i = 0; i < rounds; i++) {
    if (!mine)
      mine = allocate(actor, &rng);
    mine = atomic_exchange_explicit(&table[rng_below(&rng, slots)], mine, memory_order_acq_rel);
    mine = let_go(actor, &rng, mine);
  }
  do_free(actor, mine);
}

static void run(struct actor *actor) {
  struct member *member = pattern_array(threads, sizeof *member);
  table = pattern_array(slots, sizeof *table);
  for (uint64_t t = 0; t < threads; t++) {
    member[t].number = t;
  }
  actors_run(actor, threads, storm, member, sizeof *member);
  for (uint64_t i = 0; i < slots; i++)
    do_free(actor, table[i]);
}

static const struct option_number options[] = {
    {"threads", &threads, 1, 30000, "all at once"},
    {"slots", &slots, 1, 1ull << 32, "of the shared table"},
    {"rounds", &rounds, 0, UINT64_MAX, "exchanges of each thread"},
    {"highest", &highest_bytes, 1, 1 << 20, "largest request in bytes"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {
    .summary = "threads that free and resize each other's objects", .options = options, .run = run};

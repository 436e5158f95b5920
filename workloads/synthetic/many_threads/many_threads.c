/* SPDX-License-Identifier: MIT */
/* Many threads at once, in generations, each freeing the objects that its neighbour in the ring allocated in the
   previous turn. Shows the cost per thread of a recorder or an allocator: its start, its state, its end.

   Our own shape, not that of a program. */
#include "workloads/synthetic/pattern.h"

static uint64_t threads = 64, generations = 4, turns = 20, objects = 50, highest_bytes = 2000;

static struct barrier turn_ends;
static object_ref **basket; /* one array of objects for each thread */

struct member {
  struct actor actor;
  uint64_t number, generation;
};

static void take_part(struct actor *actor, void *argument) {
  const struct member *member = argument;
  struct rng rng = rng_seed(pattern_seed, member->generation * threads + member->number);
  object_ref *own = basket[member->number];
  object_ref *neighbours = basket[(member->number + 1) % threads];
  for (uint64_t turn = 0; turn < turns; turn++) {
    for (uint64_t i = 0; i < objects; i++)
      own[i] = do_malloc(actor, rng_between(&rng, 1, highest_bytes));
    barrier_wait(actor, &turn_ends);
    for (uint64_t i = 0; i < objects; i++)
      do_free(actor, neighbours[i]);
    barrier_wait(actor, &turn_ends);
  }
}

static void run(struct actor *actor) {
  struct member *member = pattern_array(threads, sizeof *member);
  basket = pattern_array(threads, sizeof *basket);
  for (uint64_t t = 0; t < threads; t++)
    basket[t] = pattern_array(objects, sizeof(object_ref));
  barrier_init(&turn_ends, threads);
  for (uint64_t generation = 0; generation < generations; generation++) {
    for (uint64_t t = 0; t < threads; t++) {
      member[t].number = t;
      member[t].generation = generation;
    }
    actors_run(actor, threads, take_part, member, sizeof *member);
  }
}

static const struct option_number options[] = {
    {"threads", &threads, 1, 30000, "at once"},
    {"generations", &generations, 1, UINT32_MAX, "of threads"},
    {"turns", &turns, 0, UINT64_MAX, "of each generation"},
    {"objects", &objects, 1, 1ull << 32, "of each thread in a turn"},
    {"highest", &highest_bytes, 1, 1ull << 40, "largest request in bytes"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {
    .summary = "a ring of many threads, each freeing its neighbour's objects", .options = options, .run = run};

/* SPDX-License-Identifier: MIT */
/* A server's threads each own a table of objects, free a random victim and allocate another of random size in its
   place. Now and then a thread ends and a new one takes over its table, so that objects outlive their thread and are
   freed by another. Sizes and victims are random, so nothing is predictable.

   Shape after Larson and Krishnan, "Memory allocation for long-running server applications" (ISMM 1998): tables of
   objects of random size that pass from thread to thread. */
#include "workloads/synthetic/pattern.h"

static uint64_t threads = 2, slots = 1000, rounds = 100000, generations = 10, lowest_bytes = 8, highest_bytes = 1000;

struct server {
  struct actor actor;
  struct rng rng;
  object_ref *table;
};

static void serve(struct actor *actor, void *argument) {
  struct server *server = argument;
  for (uint64_t i = 0; i < rounds; i++) {
    object_ref *victim = &server->table[rng_below(&server->rng, slots)];
    do_free(actor, *victim);
    *victim = do_malloc(actor, rng_between(&server->rng, lowest_bytes, highest_bytes));
  }
}

static void run(struct actor *actor) {
  struct server *server = pattern_array(threads, sizeof *server);
  for (uint64_t t = 0; t < threads; t++) {
    server[t].rng = rng_seed(pattern_seed, t);
    server[t].table = pattern_array(slots, sizeof(object_ref));
  }
  for (uint64_t generation = 0; generation < generations; generation++) {
    actors_run(actor, threads, serve, server, sizeof *server);
  }
  for (uint64_t t = 0; t < threads; t++)
    free_all(actor, server[t].table, slots);
}

static const struct option_number options[] = {
    {"threads", &threads, 1, 100000, "at a time"},
    {"slots", &slots, 1, 1ull << 32, "objects of each thread"},
    {"rounds", &rounds, 0, UINT64_MAX, "replacements before a thread ends"},
    {"generations", &generations, 1, UINT32_MAX, "of threads"},
    {"lowest", &lowest_bytes, 1, 1ull << 40, "smallest request in bytes"},
    {"highest", &highest_bytes, 1, 1ull << 40, "largest request in bytes"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {
    .summary = "server threads that replace random objects", .options = options, .run = run};

/* SPDX-License-Identifier: MIT */
/* Balanced malloc and free of one size in a loop, in each of several threads that share nothing else: shows how well an
   allocator separates the threads' work.

   The first test of Lever and Boreham, "malloc() performance in a multithreaded Linux environment" (USENIX 2000,
   Freenix track): ten million pairs, requests of 512 bytes. */
#include "workloads/synthetic/pattern.h"

static uint64_t threads = 2, pairs = 1000000, size_bytes = 512;

static void loop(struct actor *actor, void *argument) {
  (void)argument;
  for (uint64_t i = 0; i < pairs; i++)
    do_free(actor, do_malloc(actor, size_bytes));
}

static void run(struct actor *actor) {
  struct actor *member = pattern_array(threads, sizeof *member);
  actors_run(actor, threads, loop, member, sizeof *member);
}

static const struct option_number options[] = {
    {"threads", &threads, 1, 30000, "all at once"},
    {"pairs", &pairs, 0, UINT64_MAX, "of malloc and free in each thread"},
    {"size", &size_bytes, 1, 1ull << 40, "of each request in bytes"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {
    .summary = "pairs of malloc and free of one size in each thread", .options = options, .run = run};

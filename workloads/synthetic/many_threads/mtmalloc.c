/* SPDX-License-Identifier: MIT */
/* One freeing thread for each allocating thread: the allocator's thread fills a table of --samples places with objects
   of random size, from 8 bytes to 1.5 times --max, up to megabytes; its partner frees the objects in the same order as
   soon as they are in the table.

   Shape after the test harness in R. Weisner, "How memory allocation affects performance in multithreaded programs"
   (Oracle, 2012), which compared libc, mtmalloc, libumem and Hoard under growing numbers of threads. */
#include "workloads/synthetic/pattern.h"

enum { LOWEST_BYTES = 8, SHARES = 16 };

static uint64_t threads = 2, rounds = 100, samples = 1024, max_bytes = 1024;

struct pair {
  struct actor allocating, freeing;
  struct channel table; /* in shares, so that both threads have work */
  uint64_t number;
};

static uint64_t share_objects(void) {
  return samples / SHARES ? samples / SHARES : 1;
}

static uint64_t shares(void) {
  return (samples + share_objects() - 1) / share_objects();
}

/* Number of objects in that share of the table: the last may be short. */
static uint64_t blocks_in(uint64_t share) {
  uint64_t before = share % shares() * share_objects();
  return samples - before < share_objects() ? samples - before : share_objects();
}

static void allocate(struct actor *actor, void *argument) {
  struct pair *pair = argument;
  struct rng rng = rng_seed(pattern_seed, pair->number);
  for (uint64_t i = 0; i < rounds * shares(); i++) {
    object_ref *share = channel_room(actor, &pair->table);
    for (uint64_t b = 0; b < blocks_in(i); b++)
      share[b] = do_malloc(actor, rng_between(&rng, LOWEST_BYTES, max_bytes + max_bytes / 2));
    channel_send(actor, &pair->table);
  }
}

static void release(struct actor *actor, void *argument) {
  struct pair *pair = argument;
  for (uint64_t i = 0; i < rounds * shares(); i++) {
    const object_ref *share = channel_receive(actor, &pair->table);
    for (uint64_t b = 0; b < blocks_in(i); b++)
      do_free(actor, share[b]);
    channel_done(actor, &pair->table);
  }
}

static void run(struct actor *actor) {
  struct pair *pair = pattern_array(threads, sizeof *pair);
  for (uint64_t p = 0; p < threads; p++) {
    pair[p].number = p;
    channel_init(&pair[p].table, shares(), share_objects());
    actor_start(actor, &pair[p].allocating, allocate, &pair[p]);
    actor_start(actor, &pair[p].freeing, release, &pair[p]);
  }
  for (uint64_t p = 0; p < threads; p++) {
    actor_join(actor, &pair[p].allocating);
    actor_join(actor, &pair[p].freeing);
  }
}

static const struct option_number options[] = {
    {"threads", &threads, 1, 10000, "that allocate, and as many that free"},
    {"rounds", &rounds, 0, UINT32_MAX, "times each table is filled"},
    {"samples", &samples, 1, 1ull << 32, "objects of each pair of threads, at most"},
    {"max", &max_bytes, 8, 1ull << 38, "sizes are from 8 bytes to 1.5 times this"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {
    .summary = "one freeing thread for each allocating thread", .options = options, .run = run};

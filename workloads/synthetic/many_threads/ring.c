/* SPDX-License-Identifier: MIT */
/* Remote frees in a ring: each thread passes its objects to its neighbour, which passes them on; after --hops the
   thread that has them frees them. On their way objects are resized now and then, so that another thread resizes memory
   of one thread's heap.

   Our own shape, for the cycle of heaps that lend to each other (a thread's free memory is always its neighbour's). */
#include "workloads/synthetic/pattern.h"

#include <string.h>

static uint64_t threads = 4, hops = 2, rounds = 500, batch_objects = 100, lowest_bytes = 16, highest_bytes = 512,
                resized_percent = 5;

struct member {
  struct actor actor;
  uint64_t number;
  struct channel from_left;
  struct member *right;
};

static void allocate_batch(struct actor *actor, struct rng *rng, object_ref *batch) {
  for (uint64_t b = 0; b < batch_objects; b++)
    batch[b] = do_malloc(actor, rng_between(rng, lowest_bytes, highest_bytes));
}

static void pass_on(struct actor *actor, struct rng *rng, object_ref *batch, const object_ref *held) {
  for (uint64_t b = 0; b < batch_objects; b++) {
    bool resized = rng_below(rng, 100) < resized_percent;
    batch[b] = resized ? do_realloc(actor, held[b], rng_between(rng, lowest_bytes, 2 * highest_bytes)) : held[b];
  }
}

/* Each round: sends one batch of each age below hops, then takes one of each from the left; the oldest is freed. */
static void take_part(struct actor *actor, void *argument) {
  struct member *member = argument;
  struct rng rng = rng_seed(pattern_seed, member->number);
  object_ref *held = pattern_array(hops * batch_objects, sizeof *held); /* by age */
  for (uint64_t round = 0; round < rounds + hops - 1; round++) {
    for (uint64_t age = 0; age < hops; age++) {
      object_ref *batch = channel_room(actor, &member->right->from_left);
      if (round < age || round - age >= rounds)
        memset(batch, 0, batch_objects * sizeof *batch); /* no batch of that age yet, or any more */
      else if (age == 0)
        allocate_batch(actor, &rng, batch);
      else
        pass_on(actor, &rng, batch, held + age * batch_objects);
      channel_send(actor, &member->right->from_left);
    }
    for (uint64_t age = 1; age <= hops; age++) {
      const object_ref *batch = channel_receive(actor, &member->from_left);
      for (uint64_t b = 0; age == hops && b < batch_objects; b++)
        if (batch[b])
          do_free(actor, batch[b]);
      if (age < hops)
        memcpy(held + age * batch_objects, batch, batch_objects * sizeof *batch);
      channel_done(actor, &member->from_left);
    }
  }
}

static void run(struct actor *actor) {
  struct member *member = pattern_array(threads, sizeof *member);
  for (uint64_t t = 0; t < threads; t++) {
    member[t].number = t;
    member[t].right = &member[(t + 1) % threads];
    channel_init(&member[t].from_left, 2 * hops, batch_objects);
  }
  actors_run(actor, threads, take_part, member, sizeof *member);
}

static const struct option_number options[] = {
    {"threads", &threads, 2, 10000, "of the ring"},
    {"hops", &hops, 1, 1000, "from thread to thread before an object is freed"},
    {"rounds", &rounds, 0, UINT32_MAX, "batches that each thread allocates"},
    {"batch", &batch_objects, 1, 1 << 20, "objects in a batch"},
    {"lowest", &lowest_bytes, 1, 1ull << 40, "smallest request in bytes"},
    {"highest", &highest_bytes, 1, 1ull << 39, "largest request in bytes; resized objects up to twice that"},
    {"resized", &resized_percent, 0, 100, "percent of the objects that are resized at a hop"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {
    .summary = "objects that travel round a ring of threads", .options = options, .run = run};

/* SPDX-License-Identifier: MIT */
/* Producers allocate batches of objects, consumers free them: every free is of an object that another thread allocated.

   Shape after xmalloc-test, the producer and consumer test that grew out of Lever and Boreham's malloc-test. */
#include "workloads/synthetic/pattern.h"

enum { QUEUE = 16 };

static uint64_t pairs = 1, batches = 1000, batch_objects = 1000, lowest_bytes = 8, highest_bytes = 512;

struct pair {
  struct actor producer, consumer;
  struct channel channel;
  uint64_t number;
};

static void produce(struct actor *actor, void *argument) {
  struct pair *pair = argument;
  struct rng rng = rng_seed(pattern_seed, pair->number);
  for (uint64_t i = 0; i < batches; i++) {
    object_ref *batch = channel_room(actor, &pair->channel);
    for (uint64_t b = 0; b < batch_objects; b++)
      batch[b] = do_malloc(actor, rng_between(&rng, lowest_bytes, highest_bytes));
    channel_send(actor, &pair->channel);
  }
}

static void consume(struct actor *actor, void *argument) {
  struct pair *pair = argument;
  for (uint64_t i = 0; i < batches; i++) {
    const object_ref *batch = channel_receive(actor, &pair->channel);
    for (uint64_t b = 0; b < batch_objects; b++)
      do_free(actor, batch[b]);
    channel_done(actor, &pair->channel);
  }
}

static void run(struct actor *actor) {
  struct pair *pair = pattern_array(pairs, sizeof *pair);
  for (uint64_t p = 0; p < pairs; p++) {
    pair[p].number = p;
    channel_init(&pair[p].channel, QUEUE, batch_objects);
    actor_start(actor, &pair[p].producer, produce, &pair[p]);
    actor_start(actor, &pair[p].consumer, consume, &pair[p]);
  }
  for (uint64_t p = 0; p < pairs; p++) {
    actor_join(actor, &pair[p].producer);
    actor_join(actor, &pair[p].consumer);
  }
}

static const struct option_number options[] = {
    {"pairs", &pairs, 1, 10000, "producers, and as many consumers"},
    {"batches", &batches, 0, UINT64_MAX, "of each producer"},
    {"batch", &batch_objects, 1, 1 << 20, "objects in a batch"},
    {"lowest", &lowest_bytes, 1, 1ull << 40, "smallest request in bytes"},
    {"highest", &highest_bytes, 1, 1ull << 40, "largest request in bytes"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {
    .summary = "producers and consumers: every free is remote", .options = options, .run = run};

/* SPDX-License-Identifier: MIT */
/* An asymmetric pipeline: one thread reads (it only allocates), several transform (each frees its input and allocates
   larger results, some of which it drops at once), one writes (it only frees). Memory flows through the threads in one
   direction and does not come back by itself: the first thread needs the memory that the last one frees.

   Our own shape, for programs of stages such as a compressor or a video filter; the flow from one heap to another is
   what Berger et al. (Hoard, ASPLOS 2000) call producer and consumer. */
#include "workloads/synthetic/pattern.h"

enum { CAPACITY = 4 };

static uint64_t workers = 3, batches = 1000, batch_objects = 100, lowest_bytes = 64, highest_bytes = 1024,
                growth_percent = 150, dropped_percent = 20;

struct worker {
  struct actor actor;
  struct channel in, out;
  uint64_t number;
};

static struct worker *worker;

/* Number of batches that a worker gets: they are assigned round robin. */
static uint64_t batches_of(uint64_t number) {
  return batches / workers + (number < batches % workers);
}

static void read_input(struct actor *actor, void *argument) {
  (void)argument;
  struct rng rng = rng_seed(pattern_seed, workers);
  for (uint64_t i = 0; i < batches; i++) {
    struct worker *next = &worker[i % workers];
    object_ref *batch = channel_room(actor, &next->in);
    for (uint64_t b = 0; b < batch_objects; b++)
      batch[b] = do_malloc(actor, rng_between(&rng, lowest_bytes, highest_bytes));
    channel_send(actor, &next->in);
  }
}

static void transform(struct actor *actor, void *argument) {
  struct worker *self = argument;
  struct rng rng = rng_seed(pattern_seed, self->number);
  for (uint64_t i = 0; i < batches_of(self->number); i++) {
    const object_ref *given = channel_receive(actor, &self->in);
    object_ref *made = channel_room(actor, &self->out);
    for (uint64_t b = 0; b < batch_objects; b++) {
      size_t size_bytes = rng_between(&rng, lowest_bytes, highest_bytes) * growth_percent / 100 + 1;
      made[b] = do_malloc(actor, size_bytes);
      do_free(actor, given[b]);
      if (rng_below(&rng, 100) < dropped_percent) {
        do_free(actor, made[b]);
        made[b] = 0;
      }
    }
    channel_done(actor, &self->in);
    channel_send(actor, &self->out);
  }
}

static void write_output(struct actor *actor, void *argument) {
  (void)argument;
  for (uint64_t i = 0; i < batches; i++) {
    struct worker *next = &worker[i % workers];
    const object_ref *batch = channel_receive(actor, &next->out);
    for (uint64_t b = 0; b < batch_objects; b++)
      if (batch[b])
        do_free(actor, batch[b]);
    channel_done(actor, &next->out);
  }
}

static void run(struct actor *actor) {
  static struct actor reader, writer;
  worker = pattern_array(workers, sizeof *worker);
  for (uint64_t w = 0; w < workers; w++) {
    worker[w].number = w;
    channel_init(&worker[w].in, CAPACITY, batch_objects);
    channel_init(&worker[w].out, CAPACITY, batch_objects);
  }
  actor_start(actor, &reader, read_input, NULL);
  for (uint64_t w = 0; w < workers; w++)
    actor_start(actor, &worker[w].actor, transform, &worker[w]);
  actor_start(actor, &writer, write_output, NULL);
  actor_join(actor, &reader);
  for (uint64_t w = 0; w < workers; w++)
    actor_join(actor, &worker[w].actor);
  actor_join(actor, &writer);
}

static const struct option_number options[] = {
    {"workers", &workers, 1, 10000, "threads between the reader and the writer"},
    {"batches", &batches, 0, UINT64_MAX, "that are read"},
    {"batch", &batch_objects, 1, 1 << 20, "objects in a batch"},
    {"lowest", &lowest_bytes, 1, 1ull << 38, "smallest request of the reader in bytes"},
    {"highest", &highest_bytes, 1, 1ull << 38, "largest request of the reader in bytes"},
    {"growth", &growth_percent, 1, 10000, "size of results in percent of what is read"},
    {"dropped", &dropped_percent, 0, 100, "percent of the results that a worker frees at once"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {
    .summary = "stages of threads through which memory flows one way", .options = options, .run = run};

/* SPDX-License-Identifier: MIT */
/* Objects that one thread allocates and another frees. */
#include "workloads/synthetic/pattern.h"

#include <stdatomic.h>
#include <string.h>

/* Options; each pattern sets those that it has. */
static uint64_t pairs, batches, batch_objects, lowest_bytes, highest_bytes, threads, rounds, samples, max_bytes,
    workers, growth_percent, dropped_percent, hops, resized_percent, generations, turns, objects, slots;

/* ---- Pairs of threads: one allocates, one frees ---- */

/* What passes from one to the other, in batches. */
static struct flow {
  uint64_t batches, batch_objects, table_objects; /* each table_objects end a batch early */
  uint64_t lowest_bytes, highest_bytes;
} flow;

struct pair {
  struct actor producer, consumer;
  struct channel channel;
  uint64_t number;
};

static uint64_t table_batches(void) {
  return (flow.table_objects + flow.batch_objects - 1) / flow.batch_objects;
}

/* Number of objects in that batch: the last of a table may be short. */
static uint64_t objects_in(uint64_t batch) {
  uint64_t before = batch % table_batches() * flow.batch_objects;
  return flow.table_objects - before < flow.batch_objects ? flow.table_objects - before : flow.batch_objects;
}

static void produce(struct actor *actor, void *argument) {
  struct pair *pair = argument;
  struct rng rng = rng_seed(pattern_seed, pair->number);
  for (uint64_t i = 0; i < flow.batches; i++) {
    object_ref *batch = channel_room(actor, &pair->channel);
    for (uint64_t b = 0; b < objects_in(i); b++)
      batch[b] = do_malloc(actor, rng_between(&rng, flow.lowest_bytes, flow.highest_bytes));
    channel_send(actor, &pair->channel);
  }
}

static void consume(struct actor *actor, void *argument) {
  struct pair *pair = argument;
  for (uint64_t i = 0; i < flow.batches; i++) {
    const object_ref *batch = channel_receive(actor, &pair->channel);
    for (uint64_t b = 0; b < objects_in(i); b++)
      do_free(actor, batch[b]);
    channel_done(actor, &pair->channel);
  }
}

static void run_pairs(struct actor *actor, uint64_t count, uint64_t capacity) {
  struct pair *pair = pattern_array(count, sizeof *pair);
  for (uint64_t p = 0; p < count; p++) {
    pair[p].number = p;
    channel_init(&pair[p].channel, capacity, flow.batch_objects);
    actor_start(actor, &pair[p].producer, produce, &pair[p]);
    actor_start(actor, &pair[p].consumer, consume, &pair[p]);
  }
  for (uint64_t p = 0; p < count; p++) {
    actor_join(actor, &pair[p].producer);
    actor_join(actor, &pair[p].consumer);
  }
}

/* Producers allocate batches of objects, consumers free them: every free is of an object that another thread allocated.

   Shape after xmalloc-test, the producer and consumer test that grew out of Lever and Boreham's malloc-test. */

static void xmalloc_run(struct actor *actor) {
  enum { QUEUE = 16 };
  flow = (struct flow){batches, batch_objects, batch_objects, lowest_bytes, highest_bytes};
  run_pairs(actor, pairs, QUEUE);
}

static const struct option_number xmalloc_options[] = {
    {"pairs", &pairs, 1, 1, 10000, "producers, and as many consumers"},
    {"batches", &batches, 1000, 0, UINT64_MAX, "of each producer"},
    {"batch", &batch_objects, 1000, 1, 1 << 20, "objects in a batch"},
    {"lowest", &lowest_bytes, 8, 1, 1ull << 40, "smallest request in bytes"},
    {"highest", &highest_bytes, 512, 1, 1ull << 40, "largest request in bytes"},
    {0},
};

const struct pattern pattern_xmalloc = {"xmalloc", "producers and consumers: every free is remote", xmalloc_options,
                                        xmalloc_run};

/* One freeing thread for each allocating thread: the allocator's thread fills a table of --samples places with objects
   of random size, from 8 bytes to 1.5 times --max, up to megabytes; its partner frees the objects in the same order as
   soon as they are in the table.

   Shape after the test harness in R. Weisner, "How memory allocation affects performance in multithreaded programs"
   (Oracle, 2012), which compared libc, mtmalloc, libumem and Hoard under growing numbers of threads. */

static void mtmalloc_run(struct actor *actor) {
  enum { LOWEST_BYTES = 8, SHARES = 16 }; /* a table passes in shares, so that both threads have work */
  uint64_t share = samples / SHARES ? samples / SHARES : 1;
  flow = (struct flow){0, share, samples, LOWEST_BYTES, max_bytes + max_bytes / 2};
  flow.batches = rounds * table_batches();
  run_pairs(actor, threads, table_batches());
}

static const struct option_number mtmalloc_options[] = {
    {"threads", &threads, 2, 1, 10000, "that allocate, and as many that free"},
    {"rounds", &rounds, 100, 0, UINT32_MAX, "times each table is filled"},
    {"samples", &samples, 1024, 1, 1ull << 32, "objects of each pair of threads, at most"},
    {"max", &max_bytes, 1024, 8, 1ull << 38, "sizes are from 8 bytes to 1.5 times this"},
    {0},
};

const struct pattern pattern_mtmalloc = {"mtmalloc", "one freeing thread for each allocating thread", mtmalloc_options,
                                         mtmalloc_run};

/* An asymmetric pipeline: one thread reads (it only allocates), several transform (each frees its input and allocates
   larger results, some of which it drops at once), one writes (it only frees). Memory flows through the threads in one
   direction and does not come back by itself: the first thread needs the memory that the last one frees.

   Our own shape, for programs of stages such as a compressor or a video filter; the flow from one heap to another is
   what Berger et al. (Hoard, ASPLOS 2000) call producer and consumer. */

enum { CAPACITY = 4 };

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
    free_all(actor, batch, batch_objects);
    channel_done(actor, &next->out);
  }
}

static void pipeline_run(struct actor *actor) {
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

static const struct option_number pipeline_options[] = {
    {"workers", &workers, 3, 1, 10000, "threads between the reader and the writer"},
    {"batches", &batches, 1000, 0, UINT64_MAX, "that are read"},
    {"batch", &batch_objects, 100, 1, 1 << 20, "objects in a batch"},
    {"lowest", &lowest_bytes, 64, 1, 1ull << 38, "smallest request of the reader in bytes"},
    {"highest", &highest_bytes, 1024, 1, 1ull << 38, "largest request of the reader in bytes"},
    {"growth", &growth_percent, 150, 1, 10000, "size of results in percent of what is read"},
    {"dropped", &dropped_percent, 20, 0, 100, "percent of the results that a worker frees at once"},
    {0},
};

const struct pattern pattern_pipeline = {"pipeline", "stages of threads through which memory flows one way",
                                         pipeline_options, pipeline_run};

/* Remote frees in a ring: each thread passes its objects to its neighbour, which passes them on; after --hops the
   thread that has them frees them. On their way objects are resized now and then, so that another thread resizes memory
   of one thread's heap.

   Our own shape, for the cycle of heaps that lend to each other (a thread's free memory is always its neighbour's). */

struct ring_member {
  struct actor actor;
  uint64_t number;
  struct channel from_left;
  struct ring_member *right;
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
static void ring_take_part(struct actor *actor, void *argument) {
  struct ring_member *member = argument;
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

static void ring_run(struct actor *actor) {
  struct ring_member *member = pattern_array(threads, sizeof *member);
  for (uint64_t t = 0; t < threads; t++) {
    member[t].number = t;
    member[t].right = &member[(t + 1) % threads];
    channel_init(&member[t].from_left, 2 * hops, batch_objects);
  }
  actors_run(actor, threads, ring_take_part, member, sizeof *member);
}

static const struct option_number ring_options[] = {
    {"threads", &threads, 4, 2, 10000, "of the ring"},
    {"hops", &hops, 2, 1, 1000, "from thread to thread before an object is freed"},
    {"rounds", &rounds, 500, 0, UINT32_MAX, "batches that each thread allocates"},
    {"batch", &batch_objects, 100, 1, 1 << 20, "objects in a batch"},
    {"lowest", &lowest_bytes, 16, 1, 1ull << 40, "smallest request in bytes"},
    {"highest", &highest_bytes, 512, 1, 1ull << 39, "largest request in bytes; resized objects up to twice that"},
    {"resized", &resized_percent, 5, 0, 100, "percent of the objects that are resized at a hop"},
    {0},
};

const struct pattern pattern_ring = {"ring", "objects that travel round a ring of threads", ring_options, ring_run};

/* Many threads at once, in generations, each freeing the objects that its neighbour in the ring allocated in the
   previous turn. Shows the cost per thread of a recorder or an allocator: its start, its state, its end.

   Our own shape, not that of a program. */

static struct barrier turn_ends;
static object_ref **basket; /* one array of objects for each thread */

static void many_threads_take_part(struct actor *actor, void *argument) {
  const struct member *member = argument;
  struct rng rng = rng_seed(pattern_seed, member->number);
  object_ref *own = basket[member->number % threads];
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

static void many_threads_run(struct actor *actor) {
  basket = pattern_array(threads, sizeof *basket);
  for (uint64_t t = 0; t < threads; t++)
    basket[t] = pattern_array(objects, sizeof(object_ref));
  barrier_init(&turn_ends, threads);
  for (uint64_t generation = 0; generation < generations; generation++)
    members_run(actor, generation * threads, threads, many_threads_take_part);
}

static const struct option_number many_threads_options[] = {
    {"threads", &threads, 64, 1, 30000, "at once"},
    {"generations", &generations, 4, 1, UINT32_MAX, "of threads"},
    {"turns", &turns, 20, 0, UINT64_MAX, "of each generation"},
    {"objects", &objects, 50, 1, 1ull << 32, "of each thread in a turn"},
    {"highest", &highest_bytes, 2000, 1, 1ull << 40, "largest request in bytes"},
    {0},
};

const struct pattern pattern_many_threads = {"many_threads",
                                             "a ring of many threads, each freeing its neighbour's objects",
                                             many_threads_options, many_threads_run};

/* Threads exchange objects through one small table as fast as they can: an object that a thread finds in a slot it
   frees, resizes or measures, whichever thread allocated it. Addresses pass between threads all the time and are handed
   out again at once, so that any error in a recorder's order shows.

   Our own shape, not that of a program. The one pattern in which a thread's calls depend on which thread was faster:
   runs, and the workload file, agree in their distribution only. */

static _Atomic(object_ref) *table;

static object_ref remote_storm_allocate(struct actor *actor, struct rng *rng) {
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

static void storm(struct actor *actor, void *argument) {
  const struct member *member = argument;
  struct rng rng = rng_seed(pattern_seed, member->number);
  object_ref mine = 0;
  for (uint64_t i = 0; i < rounds; i++) {
    if (!mine)
      mine = remote_storm_allocate(actor, &rng);
    mine = atomic_exchange_explicit(&table[rng_below(&rng, slots)], mine, memory_order_acq_rel);
    mine = let_go(actor, &rng, mine);
  }
  do_free(actor, mine);
}

static void remote_storm_run(struct actor *actor) {
  table = pattern_array(slots, sizeof *table);
  members_run(actor, 0, threads, storm);
  for (uint64_t i = 0; i < slots; i++)
    do_free(actor, table[i]);
}

static const struct option_number remote_storm_options[] = {
    {"threads", &threads, 4, 1, 30000, "all at once"},
    {"slots", &slots, 64, 1, 1ull << 32, "of the shared table"},
    {"rounds", &rounds, 100000, 0, UINT64_MAX, "exchanges of each thread"},
    {"highest", &highest_bytes, 256, 1, 1 << 20, "largest request in bytes"},
    {0},
};

const struct pattern pattern_remote_storm = {"remote_storm", "threads that free and resize each other's objects",
                                             remote_storm_options, remote_storm_run};

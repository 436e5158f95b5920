/* SPDX-License-Identifier: MIT */
/* Threads that share nothing but the allocator. */
#include "workloads/synthetic/pattern.h"

/* Options; each pattern sets those that it has. */
static uint64_t threads, pairs, size_bytes, rounds, lowest_bytes, highest_bytes, held, longest, writes, passive;

/* Balanced malloc and free of one size in a loop, in each of several threads that share nothing else: shows how well an
   allocator separates the threads' work.

   The first test of Lever and Boreham, "malloc() performance in a multithreaded Linux environment" (USENIX 2000,
   Freenix track): ten million pairs, requests of 512 bytes. */

static void loop(struct actor *actor, void *argument) {
  (void)argument;
  for (uint64_t i = 0; i < pairs; i++)
    do_free(actor, do_malloc(actor, size_bytes));
}

static void malloc_pairs_run(struct actor *actor) {
  members_run(actor, 0, threads, loop);
}

static const struct option_number malloc_pairs_options[] = {
    {"threads", &threads, 2, 1, 30000, "all at once"},
    {"pairs", &pairs, 1000000, 0, UINT64_MAX, "of malloc and free in each thread"},
    {"size", &size_bytes, 512, 1, 1ull << 40, "of each request in bytes"},
    {0},
};

const struct pattern pattern_malloc_pairs = {"malloc_pairs", "pairs of malloc and free of one size in each thread",
                                             malloc_pairs_options, malloc_pairs_run};

/* One-allocation stress across many threads: each thread holds at most one object at any time, and requests the next as
   soon as it has freed the last. With nothing to search and nothing to merge, only the allocator's fast path matters,
   and the state that threads share.

   Shape after mt_test_one_alloc, one of the nine workloads of the tcache benchmarks (glibc, 2017). */

static void one_at_a_time(struct actor *actor, void *argument) {
  const struct member *member = argument;
  struct rng rng = rng_seed(pattern_seed, member->number);
  for (uint64_t i = 0; i < rounds; i++)
    do_free(actor, do_malloc(actor, rng_between(&rng, lowest_bytes, highest_bytes)));
}

static void mt_one_alloc_run(struct actor *actor) {
  members_run(actor, 0, threads, one_at_a_time);
}

static const struct option_number mt_one_alloc_options[] = {
    {"threads", &threads, 16, 1, 30000, "all at once"},
    {"rounds", &rounds, 100000, 0, UINT64_MAX, "objects of each thread, one after the other"},
    {"lowest", &lowest_bytes, 16, 1, 1ull << 40, "smallest request in bytes"},
    {"highest", &highest_bytes, 1024, 1, 1ull << 40, "largest request in bytes"},
    {0},
};

const struct pattern pattern_mt_one_alloc = {"mt_one_alloc", "many threads with one object each at a time",
                                             mt_one_alloc_options, mt_one_alloc_run};

/* Groups of objects that are held for a while: a thread keeps a number of groups, frees a random one as a whole, and
   allocates another of random length in its place. A group's objects are of about one size; most groups have small
   sizes. A group is freed in the order of its calls, in the opposite order, or every other object first.

   Shape after MicroQuill's sh6bench (one thread) and sh8bench (several threads), as far as their descriptions go: sizes
   from a few bytes to a thousand with many more small ones, batches held and freed in differing orders. */

struct group {
  uint64_t count;
  object_ref *objects;
};

static void free_group(struct actor *actor, struct rng *rng, struct group *group) {
  uint64_t count = group->count;
  switch (rng_below(rng, 3)) {
  case 0:
    free_all(actor, group->objects, count);
    break;
  case 1:
    for (uint64_t i = count; i > 0; i--)
      do_free(actor, group->objects[i - 1]);
    break;
  default:
    for (uint64_t first = 0; first < 2; first++)
      for (uint64_t i = first; i < count; i += 2)
        do_free(actor, group->objects[i]);
    break;
  }
  group->count = 0;
}

static void fill_group(struct actor *actor, struct rng *rng, struct group *group) {
  size_t size_bytes = rng_log_between(rng, lowest_bytes, highest_bytes);
  group->count = rng_between(rng, 1, longest);
  for (uint64_t i = 0; i < group->count; i++)
    group->objects[i] = do_malloc(actor, size_bytes - rng_below(rng, size_bytes / 8 + 1));
}

static void groups_work(struct actor *actor, void *argument) {
  const struct member *member = argument;
  struct rng rng = rng_seed(pattern_seed, member->number);
  struct group *groups = pattern_array(held, sizeof *groups);
  for (uint64_t g = 0; g < held; g++)
    groups[g].objects = pattern_array(longest, sizeof(object_ref));
  for (uint64_t i = 0; i < rounds; i++) {
    struct group *group = &groups[rng_below(&rng, held)];
    free_group(actor, &rng, group);
    fill_group(actor, &rng, group);
  }
  for (uint64_t g = 0; g < held; g++)
    free_group(actor, &rng, &groups[g]);
}

static void groups_run(struct actor *actor) {
  static struct member alone;
  if (threads == 1)
    groups_work(actor, &alone);
  else
    members_run(actor, 0, threads, groups_work);
}

static const struct option_number groups_options[] = {
    {"threads", &threads, 1, 1, 10000, "1: the main thread alone"},
    {"held", &held, 40, 1, 1 << 20, "groups of each thread at a time"},
    {"rounds", &rounds, 2000, 0, UINT64_MAX, "groups replaced by each thread"},
    {"longest", &longest, 400, 1, 1ull << 32, "objects of a group"},
    {"lowest", &lowest_bytes, 4, 1, 1ull << 40, "smallest size of a group in bytes"},
    {"highest", &highest_bytes, 1000, 1, 1ull << 40, "largest size of a group in bytes"},
    {0},
};

const struct pattern pattern_groups = {"groups", "groups of objects held for a while", groups_options, groups_run};

/* Small objects that threads write to again and again: if an allocator puts two threads' objects on one cache line,
   they slow each other down. Each round a thread allocates an object of a few bytes, writes to it --writes times, and
   frees it. With --passive=1 the main thread allocates the objects of the first round, one after the other, and hands
   them out, so that neighbours belong to different threads.

   The third test of Lever and Boreham, "malloc() performance in a multithreaded Linux environment" (USENIX 2000,
   Freenix track): objects of 3 to 52 bytes, written a hundred million times. Active and passive are the terms of Berger
   et al. (Hoard, ASPLOS 2000). A workload holds the calls only, not the writes. */

struct false_sharing_member {
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

static void false_sharing_work(struct actor *actor, void *argument) {
  const struct false_sharing_member *member = argument;
  struct rng rng = rng_seed(pattern_seed, member->number);
  for (uint64_t i = 0; i < rounds; i++) {
    size_t size_bytes = rng_between(&rng, lowest_bytes, highest_bytes);
    object_ref object = i == 0 && member->first ? member->first : do_malloc(actor, size_bytes);
    write_often(actor, object);
    do_free(actor, object);
  }
}

static void false_sharing_run(struct actor *actor) {
  struct false_sharing_member *member = pattern_array(threads, sizeof *member);
  struct rng rng = rng_seed(pattern_seed, threads);
  for (uint64_t t = 0; t < threads; t++) {
    member[t].number = t;
    if (passive && rounds)
      member[t].first = do_malloc(actor, rng_between(&rng, lowest_bytes, highest_bytes));
  }
  actors_run(actor, threads, false_sharing_work, member, sizeof *member);
}

static const struct option_number false_sharing_options[] = {
    {"threads", &threads, 4, 1, 30000, "all at once"},
    {"rounds", &rounds, 1000, 0, UINT64_MAX, "objects of each thread, one after the other"},
    {"writes", &writes, 1000, 0, UINT64_MAX, "to each object"},
    {"lowest", &lowest_bytes, 3, 1, 4096, "smallest request in bytes"},
    {"highest", &highest_bytes, 52, 1, 4096, "largest request in bytes"},
    {"passive", &passive, 0, 0, 1, "1: the first objects come from the main thread"},
    {0},
};

const struct pattern pattern_false_sharing = {"false_sharing", "small objects of several threads, written to often",
                                              false_sharing_options, false_sharing_run};

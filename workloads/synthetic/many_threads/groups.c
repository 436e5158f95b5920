/* SPDX-License-Identifier: MIT */
/* Groups of objects that are held for a while: a thread keeps a number of groups, frees a random one as a whole, and
   allocates another of random length in its place. A group's objects are of about one size; most groups have small
   sizes. A group is freed in the order of its calls, in the opposite order, or every other object first.

   Shape after MicroQuill's sh6bench (one thread) and sh8bench (several threads), as far as their descriptions go: sizes
   from a few bytes to a thousand with many more small ones, batches held and freed in differing orders. */
#include "workloads/synthetic/pattern.h"

static uint64_t threads = 1, held = 40, rounds = 2000, longest = 400, lowest_bytes = 4, highest_bytes = 1000;

struct group {
  uint64_t count;
  object_ref *objects;
};

struct member {
  struct actor actor;
  uint64_t number;
};

static void free_group(struct actor *actor, struct rng *rng, struct group *group) {
  uint64_t count = group->count;
  switch (rng_below(rng, 3)) {
  case 0:
    for (uint64_t i = 0; i < count; i++)
      do_free(actor, group->objects[i]);
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

static void work(struct actor *actor, void *argument) {
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

static void run(struct actor *actor) {
  struct member *member = pattern_array(threads, sizeof *member);
  if (threads == 1) {
    work(actor, member);
    return;
  }
  for (uint64_t t = 0; t < threads; t++) {
    member[t].number = t;
  }
  actors_run(actor, threads, work, member, sizeof *member);
}

static const struct option_number options[] = {
    {"threads", &threads, 1, 10000, "1: the main thread alone"},
    {"held", &held, 1, 1 << 20, "groups of each thread at a time"},
    {"rounds", &rounds, 0, UINT64_MAX, "groups replaced by each thread"},
    {"longest", &longest, 1, 1ull << 32, "objects of a group"},
    {"lowest", &lowest_bytes, 1, 1ull << 40, "smallest size of a group in bytes"},
    {"highest", &highest_bytes, 1, 1ull << 40, "largest size of a group in bytes"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {.summary = "groups of objects held for a while", .options = options, .run = run};

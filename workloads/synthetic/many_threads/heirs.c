/* SPDX-License-Identifier: MIT */
/* Threads that inherit: a thread replaces random objects of a list, ends, and a new thread takes over the list, for
   many rounds. Most objects are freed by another thread than the one that allocated them, which has ended. Shows
   whether memory grows without bound when objects are passed on forever.

   The second test of Lever and Boreham, "malloc() performance in a multithreaded Linux environment" (USENIX 2000,
   Freenix track): 10,000 objects of 40 bytes; they counted page faults. */
#include "workloads/synthetic/pattern.h"

static uint64_t lines = 2, heirs = 20, objects = 10000, replacements = 10000, size_bytes = 40;

/* One list, and the thread that has it. */
struct line {
  struct actor actor;
  struct rng rng;
  object_ref *list;
};

static void replace_some(struct actor *actor, void *argument) {
  struct line *line = argument;
  for (uint64_t i = 0; i < replacements; i++) {
    object_ref *victim = &line->list[rng_below(&line->rng, objects)];
    do_free(actor, *victim);
    *victim = do_malloc(actor, size_bytes);
  }
}

static void run(struct actor *actor) {
  struct line *line = pattern_array(lines, sizeof *line);
  for (uint64_t l = 0; l < lines; l++) {
    line[l].rng = rng_seed(pattern_seed, l);
    line[l].list = pattern_array(objects, sizeof(object_ref));
    for (uint64_t i = 0; i < objects; i++)
      line[l].list[i] = do_malloc(actor, size_bytes);
  }
  for (uint64_t heir = 0; heir < heirs; heir++) {
    actors_run(actor, lines, replace_some, line, sizeof *line);
  }
  for (uint64_t l = 0; l < lines; l++)
    for (uint64_t i = 0; i < objects; i++)
      do_free(actor, line[l].list[i]);
}

static const struct option_number options[] = {
    {"lines", &lines, 1, 30000, "of inheritance, each with a thread at a time"},
    {"heirs", &heirs, 1, UINT32_MAX, "threads of a line, one after the other"},
    {"objects", &objects, 1, 1ull << 32, "in a list"},
    {"replacements", &replacements, 0, UINT64_MAX, "by each thread"},
    {"size", &size_bytes, 1, 1ull << 40, "of each request in bytes"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {
    .summary = "lists of objects that threads inherit from ended threads", .options = options, .run = run};

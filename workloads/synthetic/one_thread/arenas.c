/* SPDX-License-Identifier: MIT */
/* Temporary objects in nested scopes: a task allocates, opens a scope, allocates, opens another; a scope's objects are
   freed together when it closes, the last one first. Between two tasks hardly any object is left. This is the work of
   pools and arenas, done with malloc and free: compilers, request handlers, interpreters.

   Our own shape; the lifetimes are those that Hanson's arenas (1990) and regions assume. */
#include "workloads/synthetic/pattern.h"

static uint64_t tasks = 200, depth = 6, objects = 300, lowest_bytes = 16, highest_bytes = 512, results = 1;

static object_ref *stack; /* live objects of the task, the youngest last */
static uint64_t height;

static void open_scope(struct actor *actor, struct rng *rng) {
  uint64_t count = rng_between(rng, 1, objects);
  for (uint64_t i = 0; i < count; i++)
    stack[height++] = do_malloc(actor, rng_log_between(rng, lowest_bytes, highest_bytes));
}

static void close_scope(struct actor *actor, uint64_t bottom) {
  while (height > bottom)
    do_free(actor, stack[--height]);
}

/* Scopes open and close at random until the outermost one is closed. */
static void run_task(struct actor *actor, struct rng *rng) {
  uint64_t bottom[64], open = 0;
  do {
    if (open == 0 || (open < depth && rng_below(rng, 2))) {
      bottom[open++] = height;
      open_scope(actor, rng);
    } else {
      close_scope(actor, bottom[--open]);
    }
  } while (open > 0);
}

static void run(struct actor *actor) {
  struct rng rng = rng_seed(pattern_seed, 0);
  object_ref *result = pattern_array(tasks * results + 1, sizeof *result);
  stack = pattern_array(depth * objects, sizeof *stack);
  for (uint64_t task = 0; task < tasks; task++) {
    for (uint64_t i = 0; i < results; i++)
      result[task * results + i] = do_malloc(actor, rng_log_between(&rng, lowest_bytes, highest_bytes));
    run_task(actor, &rng);
  }
  for (uint64_t i = 0; i < tasks * results; i++)
    do_free(actor, result[i]);
}

static const struct option_number options[] = {
    {"tasks", &tasks, 0, 1ull << 32, "one after the other"},
    {"depth", &depth, 1, 64, "of nested scopes at most"},
    {"objects", &objects, 1, 1 << 28, "that a scope allocates at most"},
    {"results", &results, 0, 1024, "objects of a task that live to the end of the run"},
    {"lowest", &lowest_bytes, 1, 1ull << 40, "smallest request in bytes"},
    {"highest", &highest_bytes, 1, 1ull << 40, "largest request in bytes"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {.summary = "temporary objects, freed scope by scope", .options = options, .run = run};

/* Shaped like larson: a server's threads each own a table of blocks, free a random victim and allocate another of
   random size in its place. Now and then a thread ends and a fresh one takes over its table, so that blocks outlive
   their thread and are freed by another. Sizes and victims are random, so nothing is predictable. */
#include "workloads/synthetic/synthetic.h"

#include <pthread.h>

static uint64_t threads = 2, slots = 1000, rounds = 100000, generations = 10, lowest_bytes = 8, highest_bytes = 1000,
                seed = 1, quiet = 0;

struct server {
  pthread_t thread;
  struct rng rng;
  void **block;
};

static void *serve(void *argument) {
  struct server *server = argument;
  for (uint64_t i = 0; i < rounds; i++) {
    void **victim = &server->block[rng_below(&server->rng, slots)];
    free(*victim);
    size_t size_bytes = rng_between(&server->rng, lowest_bytes, highest_bytes);
    *victim = used(malloc(size_bytes), size_bytes);
  }
  return NULL;
}

int main(int argc, char **argv) {
  const struct option_number options[] = {{"threads", &threads, "at a time"},
                                          {"slots", &slots, "blocks of each thread"},
                                          {"rounds", &rounds, "replacements before a thread ends"},
                                          {"generations", &generations, "of threads"},
                                          {"lowest", &lowest_bytes, "smallest request in bytes"},
                                          {"highest", &highest_bytes, "largest request in bytes"},
                                          SYNTHETIC_COMMON_OPTIONS(seed, quiet)};
  synthetic_options(argc, argv, "server threads that replace random blocks", options);
  struct server *server = used(calloc(threads, sizeof *server), 0);
  for (uint64_t t = 0; t < threads; t++) {
    server[t].rng = rng_seed(seed, t);
    server[t].block = used(calloc(slots, sizeof(void *)), 0);
  }
  uint64_t start_ns = synthetic_now_ns();
  for (uint64_t generation = 0; generation < generations; generation++) {
    for (uint64_t t = 0; t < threads; t++)
      if (pthread_create(&server[t].thread, NULL, serve, &server[t]) != 0)
        exit(1);
    for (uint64_t t = 0; t < threads; t++)
      pthread_join(server[t].thread, NULL);
  }
  for (uint64_t t = 0; t < threads; t++) {
    for (uint64_t i = 0; i < slots; i++)
      free(server[t].block[i]);
    free(server[t].block);
  }
  synthetic_report(2 * threads * generations * rounds, start_ns, quiet);
  free(server);
  return 0;
}

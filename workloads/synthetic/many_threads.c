/* Many threads at once, in generations, each freeing what its neighbour in the ring allocated the turn before. Shows
   what a recorder or an allocator spends per thread: its birth, its state, its death. */
#include "workloads/synthetic/synthetic.h"

#include <pthread.h>

static uint64_t threads = 64, generations = 4, turns = 20, blocks = 50, highest_bytes = 2000, seed = 1, quiet = 0;

static pthread_barrier_t turn_ends;
static void ***basket; /* one array of blocks for each thread */

struct member {
  pthread_t thread;
  uint64_t number, generation;
};

static void *take_part(void *argument) {
  const struct member *member = argument;
  struct rng rng = rng_seed(seed, member->generation * threads + member->number);
  void **own = basket[member->number];
  void **neighbours = basket[(member->number + 1) % threads];
  for (uint64_t turn = 0; turn < turns; turn++) {
    for (uint64_t i = 0; i < blocks; i++) {
      size_t size_bytes = rng_between(&rng, 1, highest_bytes);
      own[i] = used(malloc(size_bytes), size_bytes);
    }
    pthread_barrier_wait(&turn_ends);
    for (uint64_t i = 0; i < blocks; i++)
      free(neighbours[i]);
    pthread_barrier_wait(&turn_ends);
  }
  return NULL;
}

int main(int argc, char **argv) {
  const struct option_number options[] = {{"threads", &threads, "alive at once"},
                                          {"generations", &generations, "of threads"},
                                          {"turns", &turns, "of each generation"},
                                          {"blocks", &blocks, "of each thread in a turn"},
                                          {"highest", &highest_bytes, "largest request in bytes"},
                                          SYNTHETIC_COMMON_OPTIONS(seed, quiet)};
  synthetic_options(argc, argv, "a ring of many threads, each freeing its neighbour's blocks", options);
  basket = used(calloc(threads, sizeof *basket), 0);
  struct member *member = used(calloc(threads, sizeof *member), 0);
  for (uint64_t t = 0; t < threads; t++)
    basket[t] = used(calloc(blocks, sizeof(void *)), 0);
  pthread_barrier_init(&turn_ends, NULL, (unsigned)threads);
  uint64_t start_ns = synthetic_now_ns();
  for (uint64_t generation = 0; generation < generations; generation++) {
    for (uint64_t t = 0; t < threads; t++) {
      member[t] = (struct member){.number = t, .generation = generation};
      if (pthread_create(&member[t].thread, NULL, take_part, &member[t]) != 0)
        exit(1);
    }
    for (uint64_t t = 0; t < threads; t++)
      pthread_join(member[t].thread, NULL);
  }
  synthetic_report(2 * threads * generations * turns * blocks, start_ns, quiet);
  for (uint64_t t = 0; t < threads; t++)
    free(basket[t]);
  free(member);
  free(basket);
  return 0;
}

/* Threads exchange blocks through one small table as fast as they can: what a thread finds in a slot it frees, resizes
   or asks the size of, whoever allocated it. Addresses pass between threads all the time and are handed out again at
   once, so that any flaw in a recorder's order shows. */
#include "workloads/synthetic/synthetic.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>

static uint64_t threads = 4, slots = 64, rounds = 100000, highest_bytes = 256, seed = 1, quiet = 0;

static _Atomic(void *) *table;

static void *allocate(struct rng *rng) {
  size_t size_bytes = rng_between(rng, 1, highest_bytes);
  size_t alignment = (size_t)16 << rng_below(rng, 4);
  void *block = NULL;
  switch (rng_below(rng, 8)) {
  case 0:
    return used(calloc(1 + rng_below(rng, 4), size_bytes), size_bytes);
  case 1:
    return used(memalign(alignment, size_bytes), size_bytes);
  case 2:
    return used(posix_memalign(&block, alignment, size_bytes) == 0 ? block : NULL, size_bytes);
  case 3:
    return used(aligned_alloc(alignment, size_bytes * alignment), size_bytes);
  case 4:
    return used(realloc(NULL, size_bytes), size_bytes);
  default:
    return used(malloc(size_bytes), size_bytes);
  }
}

/* Gives the block back, or a resized one to keep. */
static void *let_go(struct rng *rng, void *block) {
  size_t size_bytes = rng_between(rng, 1, highest_bytes);
  switch (rng_below(rng, 8)) {
  case 0:
    return used(realloc(block, size_bytes), size_bytes);
  case 1:
    return used(reallocarray(block, 2, size_bytes), size_bytes);
  case 2:
    if (malloc_usable_size(block) == 0 && block)
      abort();
    break;
  default:
    break;
  }
  free(block);
  return NULL;
}

static void *storm(void *argument) {
  struct rng rng = rng_seed(seed, (uintptr_t)argument);
  void *mine = NULL;
  for (uint64_t i = 0; i < rounds; i++) {
    if (!mine)
      mine = allocate(&rng);
    mine = atomic_exchange_explicit(&table[rng_below(&rng, slots)], mine, memory_order_acq_rel);
    mine = let_go(&rng, mine);
  }
  free(mine);
  return NULL;
}

int main(int argc, char **argv) {
  const struct option_number options[] = {{"threads", &threads, "all at once"},
                                          {"slots", &slots, "of the table they share"},
                                          {"rounds", &rounds, "exchanges of each thread"},
                                          {"highest", &highest_bytes, "largest request in bytes"},
                                          SYNTHETIC_COMMON_OPTIONS(seed, quiet)};
  synthetic_options(argc, argv, "threads that free and resize each other's blocks", options);
  table = used(calloc(slots, sizeof *table), 0);
  pthread_t *thread = used(calloc(threads, sizeof *thread), 0);
  uint64_t start_ns = synthetic_now_ns();
  for (uint64_t t = 0; t < threads; t++)
    if (pthread_create(&thread[t], NULL, storm, (void *)(uintptr_t)t) != 0)
      exit(1);
  for (uint64_t t = 0; t < threads; t++)
    pthread_join(thread[t], NULL);
  for (uint64_t i = 0; i < slots; i++)
    free(table[i]);
  synthetic_report(2 * threads * rounds, start_ns, quiet);
  free(thread);
  free(table);
  return 0;
}

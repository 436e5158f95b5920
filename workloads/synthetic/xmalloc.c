/* Shaped like xmalloc-test: producers allocate batches of blocks, consumers free them. Every free is of a block that
   another thread allocated. */
#include "workloads/synthetic/synthetic.h"

#include <pthread.h>

enum { MAX_BATCH = 4096, QUEUE = 16 };

static uint64_t pairs = 1, batches = 1000, batch_blocks = 1000, lowest_bytes = 8, highest_bytes = 512, seed = 1,
                quiet = 0;

struct batch {
  void *block[MAX_BATCH];
};

/* A ring of full and empty batches between one producer and one consumer. */
struct channel {
  pthread_mutex_t lock;
  pthread_cond_t moved;
  uint64_t produced, consumed;
  uint64_t number;
  struct batch ring[QUEUE];
};

static void wait_for_room(struct channel *channel) {
  pthread_mutex_lock(&channel->lock);
  while (channel->produced - channel->consumed == QUEUE)
    pthread_cond_wait(&channel->moved, &channel->lock);
  pthread_mutex_unlock(&channel->lock);
}

static void wait_for_batch(struct channel *channel) {
  pthread_mutex_lock(&channel->lock);
  while (channel->produced == channel->consumed)
    pthread_cond_wait(&channel->moved, &channel->lock);
  pthread_mutex_unlock(&channel->lock);
}

static void moved(struct channel *channel, uint64_t *counter) {
  pthread_mutex_lock(&channel->lock);
  ++*counter;
  pthread_cond_signal(&channel->moved);
  pthread_mutex_unlock(&channel->lock);
}

static void *produce(void *argument) {
  struct channel *channel = argument;
  struct rng rng = rng_seed(seed, channel->number);
  for (uint64_t i = 0; i < batches; i++) {
    wait_for_room(channel);
    struct batch *batch = &channel->ring[i % QUEUE];
    for (uint64_t b = 0; b < batch_blocks; b++) {
      size_t size_bytes = rng_between(&rng, lowest_bytes, highest_bytes);
      batch->block[b] = used(malloc(size_bytes), size_bytes);
    }
    moved(channel, &channel->produced);
  }
  return NULL;
}

static void *consume(void *argument) {
  struct channel *channel = argument;
  for (uint64_t i = 0; i < batches; i++) {
    wait_for_batch(channel);
    struct batch *batch = &channel->ring[i % QUEUE];
    for (uint64_t b = 0; b < batch_blocks; b++)
      free(batch->block[b]);
    moved(channel, &channel->consumed);
  }
  return NULL;
}

int main(int argc, char **argv) {
  const struct option_number options[] = {{"pairs", &pairs, "producers, and as many consumers"},
                                          {"batches", &batches, "of each producer"},
                                          {"batch", &batch_blocks, "blocks in a batch, at most 4096"},
                                          {"lowest", &lowest_bytes, "smallest request in bytes"},
                                          {"highest", &highest_bytes, "largest request in bytes"},
                                          SYNTHETIC_COMMON_OPTIONS(seed, quiet)};
  synthetic_options(argc, argv, "producers and consumers: every free is remote", options);
  if (batch_blocks > MAX_BATCH)
    synthetic_usage(argv[0], "a batch has at most 4096 blocks", options, 2);
  struct channel *channel = used(calloc(pairs, sizeof *channel), 0);
  pthread_t *thread = used(calloc(2 * pairs, sizeof *thread), 0);
  uint64_t start_ns = synthetic_now_ns();
  for (uint64_t p = 0; p < pairs; p++) {
    channel[p].number = p;
    pthread_mutex_init(&channel[p].lock, NULL);
    pthread_cond_init(&channel[p].moved, NULL);
    if (pthread_create(&thread[2 * p], NULL, produce, &channel[p]) != 0 ||
        pthread_create(&thread[2 * p + 1], NULL, consume, &channel[p]) != 0)
      exit(1);
  }
  for (uint64_t t = 0; t < 2 * pairs; t++)
    pthread_join(thread[t], NULL);
  synthetic_report(2 * pairs * batches * batch_blocks, start_ns, quiet);
  free(thread);
  free(channel);
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* Programs that differ only in the placement of their objects: test programs for predicting cache misses.

   planted_locality MODE HOT_BYTES COLD_BYTES OBJECTS ROUNDS
     interleaved  a list node, a cold object, a node, a cold object, ...
     apart        the same calls, all nodes first
     handover     as interleaved, but another thread acquires the cold objects, alternating with the first
   Then the list is walked ROUNDS times: HOT_BYTES of each node are read. All three make the same requests; allocators
   with separate runs for size classes keep nodes and cold objects of different classes apart in any order, and those
   with memory for each thread keep the objects of the two threads apart. */
#include "core/test/usual.h"

struct node {
  struct node *next;
  uint64_t values[];
};

static struct node *first, **last = &first;
static void **cold;
static size_t hot_bytes, cold_bytes, objects, rounds;
static pthread_barrier_t turn;

static void add_node(void) {
  struct node *node = calloc(1, hot_bytes);
  *last = node;
  last = &node->next;
}

static void add_cold(size_t index) {
  cold[index] = malloc(cold_bytes);
  memset(cold[index], 1, sizeof(void *));
}

static void build(const char *mode) {
  int apart = strcmp(mode, "apart") == 0;
  for (size_t index = 0; index < objects; index++) {
    add_node();
    if (!apart)
      add_cold(index);
  }
  for (size_t index = 0; apart && index < objects; index++)
    add_cold(index);
}

/* In batches: a barrier at each object would cost more than all other work. */
enum { BATCH = 8 };

static void *add_all_cold(void *unused) {
  for (size_t index = 0; index < objects; index++) {
    if (index % BATCH == 0)
      pthread_barrier_wait(&turn);
    add_cold(index);
    if (index % BATCH == BATCH - 1)
      pthread_barrier_wait(&turn);
  }
  return unused;
}

static void build_by_two(void) {
  pthread_t thread;
  pthread_barrier_init(&turn, NULL, 2);
  if (pthread_create(&thread, NULL, add_all_cold, NULL) != 0)
    abort();
  for (size_t index = 0; index < objects; index++) {
    add_node();
    if (index % BATCH == BATCH - 1) {
      pthread_barrier_wait(&turn);
      pthread_barrier_wait(&turn);
    }
  }
  pthread_join(thread, NULL);
}

static uint64_t walk(void) {
  uint64_t sum = 0;
  for (const struct node *node = first; node; node = node->next)
    for (size_t word = 0; word < (hot_bytes - sizeof *node) / sizeof *node->values; word++)
      sum += node->values[word];
  return sum;
}

int main(int count, char **arguments) {
  if (count != 6) {
    fprintf(stderr, "usage: planted_locality interleaved|apart|handover HOT_BYTES COLD_BYTES OBJECTS ROUNDS\n");
    return 2;
  }
  hot_bytes = strtoul(arguments[2], NULL, 10);
  cold_bytes = strtoul(arguments[3], NULL, 10);
  objects = strtoul(arguments[4], NULL, 10) / BATCH * BATCH;
  rounds = strtoul(arguments[5], NULL, 10);
  cold = calloc(objects, sizeof *cold);
  if (strcmp(arguments[1], "handover") == 0)
    build_by_two();
  else
    build(arguments[1]);
  uint64_t sum = 0;
  for (size_t round = 0; round < rounds; round++)
    sum += walk();
  return sum != 0; /* all values are 0 */
}

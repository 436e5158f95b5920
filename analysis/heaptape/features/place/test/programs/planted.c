/* SPDX-License-Identifier: MIT */
/* Programs in which a placement saves memory that is known: planted pins|pipeline|churn|even [SCALE].

   pins: fifty call sites acquire and release objects of mixed sizes; one of them, `session`, keeps a small object among
   each four, and so the OS pages of all. pipeline: a thread produces messages, another consumes them; for each fourth
   the producer keeps a receipt. churn: a cache whose entries have small headers that outlive them. even: all objects
   live equally long, and nothing can be won. */
#include "core/test/usual.h"

#include <semaphore.h>

enum { SITES = 50 };
static uint64_t state = 7;
static size_t below(size_t limit) {
  state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
  return (size_t)(state >> 33) % limit;
}

static void *filled(void *object, size_t bytes) {
  return object ? memset(object, 1, bytes) : (exit(1), NULL);
}

/* A function, and so a call site, for each number. */
#define SITE(n)                                                                                                        \
  __attribute__((noinline)) static void *site_##n(size_t bytes) {                                                      \
    return filled(malloc(bytes + n), bytes);                                                                           \
  }
#define TEN(m, t) m(t##0) m(t##1) m(t##2) m(t##3) m(t##4) m(t##5) m(t##6) m(t##7) m(t##8) m(t##9)
TEN(SITE, 1)
TEN(SITE, 2)
TEN(SITE, 3)
TEN(SITE, 4)
TEN(SITE, 5)
#define NAME(n) site_##n,
static void *(*const sites[SITES])(size_t) = {TEN(NAME, 1) TEN(NAME, 2) TEN(NAME, 3) TEN(NAME, 4) TEN(NAME, 5)};

__attribute__((noinline)) static void *session(size_t bytes) {
  return filled(calloc(1, bytes), bytes);
}

/* Keeps the objects for a while: most of the run is after the release. */
static void *kept[1 << 20];
static void work(long rounds) {
  for (long i = 0; i < rounds; i++) {
    char *object = malloc(5000);
    for (int turn = 0; turn < 100; turn++) {
      filled(object, 5000);
      __asm__ volatile("" ::: "memory");
    }
    free(object);
  }
}

/* Objects that do not fit into the gaps that the ones before left among the sessions. */
static void pins(long scale) {
  static void *live[200000];
  static const size_t least[] = {60, 600, 3000};
  long sessions = 0;
  for (int phase = 0; phase < 3; phase++) {
    long count = 0, most = 10000000 * scale / (long)least[phase];
    for (; count < most && count < 200000; count++) {
      live[count] = sites[below(SITES)](least[phase] + below(least[phase] / 4));
      if (count % 4 == 0 && sessions < 1 << 20)
        kept[sessions++] = session(56);
    }
    while (count > 0)
      free(live[--count]);
  }
  work(150000 * scale);
}

enum { QUEUE = 20000 };
static struct {
  void *messages[QUEUE];
  sem_t full, empty;
  long count;
} queue;

__attribute__((noinline)) static void *message(size_t bytes) {
  return filled(malloc(bytes), bytes);
}
__attribute__((noinline)) static void *receipt(size_t bytes) {
  return filled(malloc(bytes + 1), bytes);
}
static void *consume(void *unused) {
  (void)unused;
  for (long i = 0; i < queue.count; i += QUEUE) {
    sem_wait(&queue.full);
    for (int at = 0; at < QUEUE; at++)
      free(queue.messages[at]);
    sem_post(&queue.empty);
  }
  return NULL;
}
/* In batches, so that the queue fills up and empties in the same way each time. */
static void pipeline(long scale) {
  pthread_t consumer;
  queue.count = 15 * QUEUE * scale;
  sem_init(&queue.full, 0, 0);
  sem_init(&queue.empty, 0, 0);
  if (pthread_create(&consumer, NULL, consume, NULL) != 0)
    exit(1);
  for (long i = 0; i < queue.count; i++) {
    queue.messages[i % QUEUE] = message(200 + below(100) + (size_t)(i / (5 * QUEUE * scale)) * 400);
    if (i % 4 == 0)
      kept[i / 4] = receipt(40);
    if (i % QUEUE == QUEUE - 1) {
      sem_post(&queue.full);
      sem_wait(&queue.empty);
    }
  }
  pthread_join(consumer, NULL);
  work(150000 * scale);
}

struct entry {
  void *value;
  struct entry *next;
};
__attribute__((noinline)) static void *value(size_t bytes) {
  return filled(malloc(bytes), bytes);
}
__attribute__((noinline)) static struct entry *header(struct entry *next) {
  struct entry *entry = filled(malloc(sizeof *entry), sizeof *entry);
  entry->next = next;
  return entry;
}
static void churn(long scale) {
  enum { CACHE = 60000 };
  static struct entry *cache[CACHE];
  for (long i = 0; i < 200000 * scale; i++) {
    size_t at = below(CACHE);
    if (cache[at])
      free(cache[at]->value);
    cache[at] = i % 8 && cache[at] ? cache[at] : header(cache[at]);
    cache[at]->value = value(64 + below(100) + (size_t)(i / (40000 * scale)) * 150);
  }
  for (size_t at = 0; at < CACHE; at++)
    if (cache[at])
      free(cache[at]->value);
  work(150000 * scale);
}

static void even(long scale) {
  for (long i = 0; i < 100000 * scale && i < 1 << 20; i++)
    kept[i] = value(100 + below(100));
  work(20000 * scale);
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    void (*run)(long);
  } programs[] = {{"pins", pins}, {"pipeline", pipeline}, {"churn", churn}, {"even", even}};
  long scale = count > 2 ? atol(words[2]) : 1;
  for (size_t i = 0; count > 1 && i < sizeof programs / sizeof *programs; i++)
    if (strcmp(words[1], programs[i].name) == 0 && scale > 0)
      return programs[i].run(scale), puts(words[1]), 0;
  return 2;
}

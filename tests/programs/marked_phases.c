/* SPDX-License-Identifier: MIT */
/* Threads that go through phases together, each of which begins with a mark by the main thread: objects born after a
   mark of which all threads know belong to its phase.

   marked_phases THREADS PHASES COUNT. In each phase each thread acquires and releases an object of 1000 bytes COUNT
   times: with thread caches it gets the same memory each time, also across phases. Barriers are before and after each
   mark. */
#include "capture/wire/heaptape.h"
#include "core/test/usual.h"

static pthread_barrier_t barrier;
static unsigned phases, count;

/* Hidden from the compiler, which would otherwise remove malloc and free together. */
static void *volatile kept;

static void *work(void *unused) {
  (void)unused;
  for (unsigned phase = 1; phase <= phases; phase++) {
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < count; i++) {
      void *object = kept = malloc(1000);
      free(object);
    }
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  unsigned threads = (unsigned)atoi(argv[1]);
  phases = (unsigned)atoi(argv[2]);
  count = (unsigned)atoi(argv[3]);
  pthread_t *thread = calloc(threads, sizeof *thread);
  if (!thread || pthread_barrier_init(&barrier, NULL, threads + 1) != 0)
    return 1;
  for (unsigned i = 0; i < threads; i++)
    if (pthread_create(&thread[i], NULL, work, NULL) != 0)
      return 1;
  for (unsigned phase = 1; phase <= phases; phase++) {
    char text[32];
    pthread_barrier_wait(&barrier);
    snprintf(text, sizeof text, "phase %u", phase);
    heaptape_mark(text);
    pthread_barrier_wait(&barrier);
  }
  for (unsigned i = 0; i < threads; i++)
    pthread_join(thread[i], NULL);
  free(thread);
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* 1,000 threads that live at the same time, each with calls before and after all of them have begun: none is lost, each
   has its own number, and an idle one costs little. */
#include "capture/test/hosts/recording.h"

#include <pthread.h>

enum { THREADS = 1000, PAIRS = 200, STACK_BYTES = 64 << 10 };

static pthread_barrier_t all_begun;

static void *work(void *unused) {
  for (int i = 0; i < PAIRS; i++)
    free(keep(malloc(100)));
  pthread_barrier_wait(&all_begun);
  for (int i = 0; i < PAIRS; i++)
    free(keep(malloc(100)));
  return unused;
}

int host(void) {
  static pthread_t threads[THREADS];
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  pthread_barrier_init(&all_begun, NULL, THREADS);
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], &attributes, work, NULL) != 0)
      exit(1);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  return 0;
}

int test(void) {
  struct recorded recorded = same_as_bare(NULL, NULL);
  CHECK(recorded.dropped == 0 && recorded.events >= 4ull * PAIRS * THREADS, "%llu events, %llu dropped",
        (unsigned long long)recorded.events, (unsigned long long)recorded.dropped);
  CHECK(recorded.threads == THREADS + 1, "%u threads", recorded.threads);
  return 0;
}

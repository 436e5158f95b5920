/* SPDX-License-Identifier: MIT */
/* A program that may open only one descriptor more than the standard ones, and uses it, is recorded completely: with
   RLIMIT_NOFILE 4 from the start by its launcher, and threads that begin while no descriptor is free. */
#include "capture/test/hosts/recording.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PAIRS = 5000, THREADS = 40 };

static void *work(void *unused) {
  for (int i = 0; i < PAIRS; i++)
    free(keep(malloc(100)));
  return unused;
}

int host(void) {
  struct rlimit limit = {4, 4};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    return 1;
  int taken = open("/dev/null", O_RDONLY);
  work(NULL);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, work, NULL) != 0)
      return 2;
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  printf("descriptor %d, another %d\n", taken, dup(taken));
  return 0;
}

int test(void) {
  struct recorded recorded = same_as_bare(NULL, NULL);
  /* The threads beyond the first region's rings may get none, which is counted. */
  uint64_t calls = 2ull * PAIRS * (THREADS + 1);
  CHECK(recorded.events + recorded.dropped >= calls, "%llu events, %llu dropped", (unsigned long long)recorded.events,
        (unsigned long long)recorded.dropped);
  CHECK(recorded.events >= 2ull * PAIRS * 15, "%llu events", (unsigned long long)recorded.events);
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* 10,000 threads, most of which end before the next begins: the calls of each are recorded, under its own thread
   number, and the host's memory for them does not grow with their number. */
#include "capture/test/hosts/recording.h"

#include <pthread.h>
#include <string.h>

enum { THREADS = 10000, BYTES = 7777, RSS_LIMIT_KIB = 32 << 10 };

static void *run(void *context) {
  (void)context;
  for (int i = 0; i < 3; i++)
    free(keep(malloc(BYTES)));
  return NULL;
}

static long shared_kib(void) {
  char line[256];
  long kib = -1;
  FILE *status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status))
    if (strncmp(line, "RssShmem:", 9) == 0)
      kib = atol(line + 9);
  if (status)
    fclose(status);
  return kib;
}

int host(void) {
  enum { AT_ONCE = 4 };
  pthread_t threads[AT_ONCE];
  for (int i = 0; i < THREADS; i += AT_ONCE) {
    for (int k = 0; k < AT_ONCE; k++)
      CHECK(pthread_create(&threads[k], NULL, run, NULL) == 0, "thread %d", i + k);
    for (int k = 0; k < AT_ONCE; k++)
      pthread_join(threads[k], NULL);
  }
  CHECK(shared_kib() < RSS_LIMIT_KIB, "%ld KiB of shared memory", shared_kib());
  return 0;
}

static void count(void *context, uint32_t thread, const struct trace_event *event) {
  if (event->size_bytes == BYTES && (event->call & CALL_ID_MASK) == CALL_malloc)
    ((int *)context)[thread]++;
}

int test(void) {
  CHECK(record_self(NULL) == 0, "the host failed");
  static int counts[4 * THREADS];
  struct recorded recorded = read_trace("t.tape", count, counts);
  CHECK(recorded.threads > THREADS && recorded.threads <= THREADS + 1, "%u threads", recorded.threads);
  for (uint32_t thread = 0; thread < recorded.threads; thread++)
    CHECK(counts[thread] == 3 || (counts[thread] == 0 && thread == 0), "thread %u: %d calls", thread, counts[thread]);
  return 0;
}

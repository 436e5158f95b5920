/* SPDX-License-Identifier: MIT */
/* heaptape_pause hides the calls of all threads until heaptape_resume; the trace has a gap of exactly as many calls,
   also for threads that start in the pause, for one that makes no call after it, and for a fork child of a paused
   program. */
#include "capture/test/hosts/recording.h"
#include "capture/wire/heaptape.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, SEEN = 1000, HIDDEN = 777, SEEN_BYTES = 40, HIDDEN_BYTES = 72 };

static pthread_barrier_t before, after;

static void call(int pairs, size_t bytes) {
  for (int i = 0; i < pairs; i++)
    free(keep(malloc(bytes)));
}

static void *work(void *last_calls_are_hidden) {
  call(SEEN, SEEN_BYTES);
  pthread_barrier_wait(&before);
  pthread_barrier_wait(&after); /* paused from here ... */
  call(HIDDEN, HIDDEN_BYTES);
  pthread_barrier_wait(&before);
  pthread_barrier_wait(&after); /* ... to here */
  if (!last_calls_are_hidden)
    call(SEEN, SEEN_BYTES);
  return NULL;
}

static void *born_in_pause(void *unused) {
  call(HIDDEN, HIDDEN_BYTES);
  return unused;
}

int host(void) {
  pthread_t threads[THREADS], young;
  pthread_barrier_init(&before, NULL, THREADS + 1);
  pthread_barrier_init(&after, NULL, THREADS + 1);
  for (int i = 0; i < THREADS; i++)
    pthread_create(&threads[i], NULL, work, i == 0 ? &threads : NULL);
  pthread_barrier_wait(&before);
  heaptape_pause();
  heaptape_pause();
  heaptape_resume();
  pthread_barrier_wait(&after);
  pthread_create(&young, NULL, born_in_pause, NULL);
  pthread_join(young, NULL);
  int child = fork();
  if (child == 0) {
    call(HIDDEN, HIDDEN_BYTES);
    heaptape_resume();
    call(SEEN, SEEN_BYTES);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  pthread_barrier_wait(&before);
  heaptape_resume();
  pthread_barrier_wait(&after);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  return 0;
}

static void count(void *context, uint32_t thread, const struct trace_event *event) {
  uint64_t *counts = context;
  (void)thread;
  counts[0] += event->size_bytes == SEEN_BYTES;
  counts[1] += event->size_bytes == HIDDEN_BYTES;
}

int test(void) {
  CHECK(record_self(NULL) == 0, "the host failed");
  char paths[3][256];
  CHECK(list_traces(paths, 3) == 2, "not the traces of parent and child");
  for (int i = 0; i < 2; i++) {
    bool child = strcmp(paths[i], "t.tape") != 0;
    uint64_t counts[2] = {0};
    struct recorded recorded = read_trace(paths[i], count, counts);
    uint64_t seen = child ? SEEN : (2 * THREADS - 1) * SEEN, hidden = 2ull * HIDDEN * (child ? 1 : THREADS + 1);
    CHECK(counts[0] == seen, "%s: %llu allocations seen, not %llu", paths[i], (unsigned long long)counts[0],
          (unsigned long long)seen);
    CHECK(counts[1] == 0, "%s: %llu hidden ones seen", paths[i], (unsigned long long)counts[1]);
    /* The C library's own calls, for the start of the thread and its end. */
    CHECK(recorded.dropped >= hidden && recorded.dropped <= hidden + 40, "%s: %llu calls counted, not %llu", paths[i],
          (unsigned long long)recorded.dropped, (unsigned long long)hidden);
  }
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* With --on-full=drop and a collector that stands still, two threads drop events and never wait: recorded + dropped =
 * calls. */
#include "capture/test/hosts/recording.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { ROUNDS = 60000, BYTES = 6666 };

static void *run(void *context) {
  (void)context;
  for (int i = 0; i < ROUNDS; i++)
    free(keep(realloc(keep(aligned_alloc(64, BYTES)), BYTES + 64)));
  return NULL;
}

int host(void) {
  kill(getppid(), SIGSTOP);
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, NULL) != 0)
    return 1;
  run(NULL);
  pthread_join(thread, NULL);
  kill(getppid(), SIGCONT);
  for (int i = 0; i < 4; i++) { /* the trace continues after the gap */
    usleep(5000);
    run(NULL);
  }
  return 0;
}

static void count(void *context, uint32_t thread, const struct trace_event *event) {
  (void)thread;
  int id = event->call & CALL_ID_MASK;
  *(uint64_t *)context += id == CALL_aligned_alloc || id == CALL_realloc || id == CALL_free;
}

int test(void) {
  int status = record_self((const char *const[]){"--on-full", "drop", NULL});
  CHECK(status == 0, "status %x", status);
  uint64_t counted = 0, calls = (uint64_t)6 * 3 * ROUNDS;
  struct recorded recorded = read_trace("t.tape", count, &counted);
  uint64_t others = recorded.events - counted; /* pthread_create's calloc, which may itself have been dropped */
  CHECK(recorded.dropped > 1000 && recorded.calls[CALL_aligned_alloc] > 1000, "%llu dropped",
        (unsigned long long)recorded.dropped);
  uint64_t accounted = counted + others + recorded.dropped;
  CHECK(accounted >= calls && accounted <= calls + 8, "%llu recorded, %llu dropped, of %llu calls",
        (unsigned long long)recorded.events, (unsigned long long)recorded.dropped, (unsigned long long)calls);
  return 0;
}

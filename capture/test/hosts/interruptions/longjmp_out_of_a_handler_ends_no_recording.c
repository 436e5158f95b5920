/* SPDX-License-Identifier: MIT */
/* A handler that leaves by siglongjmp, again and again and at any place: all later calls of the program are recorded,
   nothing is dropped, and no record is broken. The allocator tolerates this. */
#include "capture/test/hosts/recording.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

enum { JUMPS = 5000, JUMPING_BYTES = 40, AFTER_BYTES = 5050, AFTER = 1000 };

static sigjmp_buf back;
static volatile int jumps;
static volatile sig_atomic_t ready;

static void handler(int signal) {
  (void)signal;
  if (ready)
    siglongjmp(back, 1);
}

static void *shoot(void *target) {
  struct timespec pause = {0, 2000};
  while (jumps < JUMPS) {
    pthread_kill(*(pthread_t *)target, SIGUSR1);
    nanosleep(&pause, NULL);
  }
  return NULL;
}

int host(void) {
  pthread_t self = pthread_self(), shooter;
  signal(SIGUSR1, handler);
  if (pthread_create(&shooter, NULL, shoot, &self) != 0)
    return 1;
  if (sigsetjmp(back, 1) != 0)
    jumps++;
  ready = 1;
  while (jumps < JUMPS)
    free(keep(realloc(keep(malloc(JUMPING_BYTES)), JUMPING_BYTES)));
  ready = 0;
  pthread_join(shooter, NULL);
  for (int i = 0; i < AFTER; i++)
    free(keep(malloc(AFTER_BYTES)));
  return 0;
}

struct seen {
  uint64_t object;
  int allocated, freed;
};

static void count(void *context, uint32_t thread, const struct trace_event *event) {
  struct seen *seen = context;
  if (thread != 0)
    return;
  if (event->size_bytes == AFTER_BYTES) {
    seen->allocated++;
    seen->object = event->acquired;
  } else if ((event->call & CALL_ID_MASK) == CALL_free && event->released && event->released == seen->object) {
    seen->freed++;
    seen->object = 0;
  }
}

int test(void) {
  record_self_on_bump();
  struct seen seen = {0, 0, 0};
  struct recorded recorded = read_trace("t.tape", count, &seen);
  CHECK(recorded.dropped == 0, "%llu dropped", (unsigned long long)recorded.dropped);
  CHECK(seen.allocated == AFTER && seen.freed == AFTER, "%d, %d of %d", seen.allocated, seen.freed, AFTER);
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* A program of two threads, killed with SIGKILL at a random moment, ten times: every call that had returned (each
   thread counts its own in shared memory) is in the trace, and at most one more per thread. */
#include "capture/test/hosts/recording.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { KILLS = 10, BYTES = 48 };

static volatile unsigned long *returned; /* per thread, a cache line apart */

static unsigned long *map_returned(void) {
  FILE *file = fopen("returned", "a+");
  CHECK(file && ftruncate(fileno(file), 4096) == 0, "returned");
  void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
  fclose(file);
  return memory;
}

static void *run(void *context) {
  volatile unsigned long *mine = context;
  for (;;) {
    void *object = keep(malloc(BYTES));
    ++*mine;
    free(keep(object));
    ++*mine;
  }
  return NULL;
}

int host(void) {
  returned = map_returned();
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    pthread_create(&threads[i], NULL, run, (void *)&returned[16 * i]);
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  struct timespec pause = {0, 1000000 + (now.tv_nsec ^ getpid() * 7919L) % 30000000};
  nanosleep(&pause, NULL);
  kill(getpid(), SIGKILL);
  return 1;
}

struct seen {
  uint64_t object[3];
  unsigned long events[3];
};

static void count(void *context, uint32_t thread, const struct trace_event *event) {
  struct seen *seen = context;
  CHECK(thread < 3, "thread %u", thread);
  int id = event->call & CALL_ID_MASK;
  if (id == CALL_malloc && event->size_bytes == BYTES)
    seen->object[thread] = event->acquired;
  else if (id != CALL_free || event->released != seen->object[thread])
    return;
  seen->events[thread]++;
}

int test(void) {
  for (int kill = 0; kill < KILLS; kill++) {
    unlink("returned");
    int status = record_self(NULL);
    CHECK(status >> 8 == 128 + SIGKILL, "status %x", status);
    returned = map_returned();
    struct seen seen = {{0}, {0}};
    struct recorded recorded = read_trace("t.tape", count, &seen);
    CHECK(!recorded.truncated && strcmp(recorded.end, "killed") == 0, "end %s", recorded.end);
    unsigned long calls[2] = {returned[0], returned[16]};
    unsigned long found = seen.events[0] + seen.events[1] + seen.events[2];
    CHECK(found >= calls[0] + calls[1] && found <= calls[0] + calls[1] + 2, "%lu events of %lu + %lu calls", found,
          calls[0], calls[1]);
  }
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* A handler that allocates, frees and resizes interrupts a program that does the same, as often as the machine can:
   events are exactly the calls made, each object released was handed out before by the same thread. Only where the
   recorder gets no processor for so long that the handlers' events no longer fit into the side buffer may some be
   missing; they are counted. The allocator tolerates this. */
#include "capture/test/hosts/recording.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MAIN_BYTES = 40, HANDLER_BYTES = 3000, RESIZED_BYTES = 4000, SIGNALS = 40000, HANDLER_CALLS = 3000 };

static unsigned long *calls; /* [0] of the program, [1] of the handler; the host's, in a file that the driver reads */
static atomic_bool over;

static void handler(int signal) {
  (void)signal;
  free(keep(realloc(keep(malloc(HANDLER_BYTES)), RESIZED_BYTES)));
  calls[1] += 3;
}

/* Signals that arrive while the thread waits for a processor are delivered as one: it continues until enough were. */
static void *shoot(void *target) {
  struct timespec pause = {0, 1000};
  for (int i = 0; i < SIGNALS || calls[1] <= HANDLER_CALLS; i++) {
    pthread_kill(*(pthread_t *)target, SIGUSR1);
    if (i % 8 == 0)
      nanosleep(&pause, NULL);
  }
  atomic_store(&over, true);
  return NULL;
}

static unsigned long *map_calls(void) {
  FILE *file = fopen("calls", "a+");
  CHECK(file && ftruncate(fileno(file), 4096) == 0, "calls");
  return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
}

int host(void) {
  calls = map_calls();
  pthread_t self = pthread_self(), shooter;
  signal(SIGUSR1, handler);
  CHECK(pthread_create(&shooter, NULL, shoot, &self) == 0, "pthread_create");
  while (!atomic_load(&over)) {
    free(keep(realloc(keep(malloc(MAIN_BYTES)), MAIN_BYTES + 1)));
    calls[0] += 3;
  }
  return 0;
}

struct seen {
  uint64_t last[3]; /* the object that the program, or the handler, has just been given */
  unsigned long program, handler, strange;
};

static void check_event(void *context, uint32_t thread, const struct trace_event *event) {
  struct seen *seen = context;
  if (thread != 0)
    return;
  int id = event->call & CALL_ID_MASK;
  bool small = event->size_bytes == MAIN_BYTES || event->size_bytes == MAIN_BYTES + 1;
  bool large = event->size_bytes == HANDLER_BYTES || event->size_bytes == RESIZED_BYTES;
  if (id == CALL_malloc && (small || large)) {
    *(small ? &seen->program : &seen->handler) += 1;
    seen->last[large] = event->acquired;
  } else if (id == CALL_realloc && (small || large)) {
    *(small ? &seen->program : &seen->handler) += 1;
    seen->strange += event->released != seen->last[large];
    seen->last[large] = event->acquired;
  } else if (id == CALL_free) {
    bool mine = event->released == seen->last[0];
    if (mine || event->released == seen->last[1])
      *(mine ? &seen->program : &seen->handler) += 1;
  }
}

int test(void) {
  record_self_on_bump();
  calls = map_calls();
  struct seen seen = {0};
  struct recorded recorded = read_trace("t.tape", check_event, &seen);
  unsigned long missing = calls[0] + calls[1] - seen.program - seen.handler; /* a lost object's release is not known */
  CHECK(calls[1] > HANDLER_CALLS, "only %lu calls in handlers", calls[1]);
  CHECK(recorded.dropped <= missing && missing <= 2 * recorded.dropped && seen.strange <= recorded.dropped,
        "%lu of %lu and %lu calls are missing, %llu dropped, %lu reallocs of other objects", missing, calls[0],
        calls[1], (unsigned long long)recorded.dropped, seen.strange);
  return 0;
}

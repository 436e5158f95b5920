/* SPDX-License-Identifier: MIT */
/* Calls made by destructors of thread-specific data (also ones that set it again, so that they run in several rounds),
   by atexit handlers and by destructors of the program: all are events. */
#include "capture/test/hosts/recording.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 3, BYTES = 1234 };

static pthread_key_t key;
static __thread int rounds;

static void call(void) {
  for (int i = 0; i < 10; i++)
    free(keep(malloc(BYTES)));
}

static void at_thread_end(void *object) {
  free(object);
  call();
  if (++rounds < ROUNDS)
    pthread_setspecific(key, malloc(BYTES));
}

static void *work(void *unused) {
  pthread_setspecific(key, malloc(BYTES));
  return unused;
}

/* A thread whose only calls are those of its destructor. */
static void *idle(void *unused) {
  pthread_setspecific(key, &rounds);
  return unused;
}

static void at_idle_end(void *unused) {
  (void)unused;
  call();
}

__attribute__((destructor)) static void at_program_end(void) {
  if (rounds == -1)
    call();
}

int host(void) {
  pthread_t threads[THREADS];
  pthread_key_create(&key, at_thread_end);
  for (int i = 0; i < THREADS; i++)
    pthread_create(&threads[i], NULL, work, NULL);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  pthread_key_delete(key);
  pthread_key_create(&key, at_idle_end);
  pthread_create(&threads[0], NULL, idle, NULL);
  pthread_join(threads[0], NULL);
  atexit(call);
  rounds = -1;
  return 0;
}

static void count(void *context, uint32_t thread, const struct trace_event *event) {
  (void)thread;
  *(int *)context += event->call == CALL_malloc && event->size_bytes == BYTES;
}

int test(void) {
  same_as_bare(NULL, NULL);
  int seen = 0;
  read_trace("t.tape", count, &seen);
  int expected = THREADS * ROUNDS * 11 + 10 + 10 + 10;
  CHECK(seen == expected, "%d allocations, not %d", seen, expected);
  return 0;
}

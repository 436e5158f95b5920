/* SPDX-License-Identifier: MIT */
/* Threads with the smallest stack that there is, 16 KiB, and with signal handlers on an alternate stack of the smallest
   size: the tracer's slow paths (first call, full ring, new region) fit in what is left. */
#include "capture/test/hosts/recording.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { PAIRS = 20000, THREADS = 20, STACK_BYTES = 16384 };

static void handler(int signal) {
  (void)signal;
  for (int i = 0; i < 10; i++)
    free(keep(malloc(50)));
}

static void *work(void *stack) {
  stack_t alternate = {.ss_sp = stack, .ss_size = (size_t)MINSIGSTKSZ + 1024};
  sigaltstack(&alternate, NULL);
  raise(SIGUSR1); /* its first call is the handler's */
  void *object = NULL;
  for (int i = 0; i < PAIRS; i++) {
    object = realloc(object, (size_t)(100 + i % 300));
    if (i % 5000 == 0)
      raise(SIGUSR1);
  }
  free(object);
  return NULL;
}

int host(void) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR1, &action, NULL);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstacksize(&attributes, STACK_BYTES) != 0) {
    puts("no stacks of 16 KiB here");
    return 77;
  }
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], &attributes, work, malloc((size_t)MINSIGSTKSZ + 1024)) != 0)
      return 1;
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  return 0;
}

int test(void) {
  struct recorded recorded = same_as_bare(NULL, NULL);
  CHECK(recorded.dropped == 0 && recorded.calls[CALL_realloc] >= (uint64_t)PAIRS * THREADS, "%llu events, %llu dropped",
        (unsigned long long)recorded.events, (unsigned long long)recorded.dropped);
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* While other threads allocate, forked children do so too, and fork again; atfork handlers that allocate do not hang.
 */
#include "core/test/usual.h"

enum { THREADS = 3, FORKS = 60, TIMEOUT_S = 60 };

static atomic_bool done;

static void churn(unsigned seed, int calls) {
  void *objects[64] = {NULL};
  for (int call = 0; call < calls; call++) {
    unsigned index = rand_r(&seed) % 64;
    free(objects[index]);
    size_t bytes = rand_r(&seed) % (call % 50 == 0 ? 200000 : 2000);
    objects[index] = malloc(bytes);
    if (!objects[index])
      _exit(4);
    memset(objects[index], 1, bytes < 64 ? bytes : 64);
  }
  for (int index = 0; index < 64; index++)
    free(objects[index]);
}

static void *allocate(void *argument) {
  while (!done)
    churn((unsigned)(size_t)argument, 1000);
  return NULL;
}

static void *allocate_briefly(void *argument) {
  churn((unsigned)(size_t)argument, 1000);
  return NULL;
}

static void allocating_handler(void) {
  free(malloc(5000));
}

static int child(int number) {
  churn((unsigned)number, 500);
  pthread_t thread;
  if (pthread_create(&thread, NULL, allocate_briefly, (void *)(size_t)number) != 0)
    return 1;
  pid_t grandchild = fork();
  if (grandchild == 0) {
    churn((unsigned)number + 1, 200);
    _exit(0);
  }
  int status;
  waitpid(grandchild, &status, 0);
  pthread_join(thread, NULL);
  return status != 0;
}

int main(void) {
  alarm(TIMEOUT_S); /* a deadlock ends the test */
  pthread_atfork(allocating_handler, allocating_handler, allocating_handler);
  pthread_t threads[THREADS];
  for (size_t index = 0; index < THREADS; index++)
    pthread_create(&threads[index], NULL, allocate, (void *)(index + 1));
  int bad = 0;
  for (int number = 0; number < FORKS && !bad; number++) {
    pid_t forked = fork();
    if (forked == 0)
      _exit(child(number));
    int status = -1;
    waitpid(forked, &status, 0);
    if (status != 0) {
      fprintf(stderr, "child %d: wait status %#x\n", number, status);
      bad = 1;
    }
  }
  done = true;
  for (int index = 0; index < THREADS; index++)
    pthread_join(threads[index], NULL);
  return bad;
}

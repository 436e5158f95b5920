/* SPDX-License-Identifier: MIT */
/* Prints the process's resident memory in KiB (RssAnon, RssFile and RssShmem together) while its threads live.

   memory_of_threads IDLE BUSY: IDLE threads of a hundred calls each, BUSY ones of half a million. They run one after
   the other, so that the used part of a ring does not depend on the machine's load. */
#include "core/test/usual.h"

static pthread_barrier_t done, looked;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static void *call(void *calls) {
  pthread_mutex_lock(&turn);
  for (long i = 0; i < (long)calls / 2; i++) {
    void *volatile block = malloc(24);
    free(block);
  }
  pthread_mutex_unlock(&turn);
  pthread_barrier_wait(&done);
  pthread_barrier_wait(&looked);
  return NULL;
}

static long resident_kib(void) {
  char text[8192] = "";
  long kib = 0;
  FILE *status = fopen("/proc/self/status", "r");
  if (!status || fread(text, 1, sizeof text - 1, status) == 0)
    exit(1);
  fclose(status);
  static const char *const parts[] = {"RssAnon:", "RssFile:", "RssShmem:"};
  for (int i = 0; i < 3; i++) {
    const char *at = strstr(text, parts[i]);
    kib += at ? atol(at + strlen(parts[i])) : 0;
  }
  return kib;
}

int main(int argc, char **argv) {
  enum { THREADS_MAX = 1000 };
  pthread_t thread[THREADS_MAX];
  int idle = argc == 3 ? atoi(argv[1]) : -1, busy = argc == 3 ? atoi(argv[2]) : -1;
  if (idle < 0 || busy < 0 || idle + busy > THREADS_MAX)
    return 2;
  pthread_barrier_init(&done, NULL, (unsigned)(idle + busy + 1));
  pthread_barrier_init(&looked, NULL, (unsigned)(idle + busy + 1));
  for (int i = 0; i < idle + busy; i++)
    if (pthread_create(&thread[i], NULL, call, (void *)(i < idle ? 100L : 500000L)) != 0)
      return 1;
  pthread_barrier_wait(&done);
  printf("%ld\n", resident_kib());
  pthread_barrier_wait(&looked);
  for (int i = 0; i < idle + busy; i++)
    pthread_join(thread[i], NULL);
  return 0;
}

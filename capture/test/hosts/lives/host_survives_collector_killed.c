/* SPDX-License-Identifier: MIT */
/* The collector is killed while two threads allocate: the host finishes its work, starts threads and forks as before,
   and the part of the trace that was written can be read. */
#include "capture/test/hosts/recording.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *run(void *context) {
  for (int i = 0; i < 1000000; i++)
    free(keep(malloc(100)));
  return context;
}

int host(void) {
  pthread_t threads[2];
  int recorder = getppid();
  pthread_create(&threads[0], NULL, run, NULL);
  usleep(20000);
  kill(recorder, SIGKILL);
  pthread_create(&threads[1], NULL, run, NULL);
  run(NULL);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  int child = fork(), status;
  if (child == 0)
    _exit(run(NULL) != NULL);
  waitpid(child, &status, 0);
  FILE *done = fopen("done", "w");
  if (status == 0 && done)
    fclose(done);
  return 0;
}

int test(void) {
  int status = record_self(NULL);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status %x", status);
  for (int i = 0; access("done", F_OK) != 0; i++) {
    CHECK(i < 12000, "the host did not finish in 120 s");
    usleep(10000);
  }
  CHECK(read_trace("t.tape", NULL, NULL).truncated, "the trace does not say that it is truncated");
  return 0;
}

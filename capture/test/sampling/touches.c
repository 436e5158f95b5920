/* SPDX-License-Identifier: MIT */
/* Usage: touches alone|thread|fork|overflow. Objects in separate mappings whose OS pages are written in sequence: as
   many page faults as OS pages, all of them in objects except the first of each, which malloc itself touches. fork: a
   child does it too. overflow: one object whose OS pages are given back and touched again, 40,000 times in total, while
   the recorder is stopped. */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OS_PAGE_BYTES = 4096 };

__attribute__((noinline)) static void touch(size_t bytes, int os_pages) {
  char *volatile object = malloc(bytes);
  for (int i = 1; i <= os_pages; i++)
    object[i * OS_PAGE_BYTES] = 1;
  free(object);
}

static void *touch_all(void *rounds) {
  for (long i = 0; i < (long)rounds; i++) {
    touch(1000000, 100);
    touch(500000, 20);
  }
  return NULL;
}

static char state_of(int pid) {
  char path[64], text[512] = "";
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *file = fopen(path, "r");
  const char *after = file && fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
  if (file)
    fclose(file);
  return after ? after[2] : '?';
}

static void overflow(void) {
  enum { OS_PAGES = 4000, ROUNDS = 10 };
  char *volatile object = malloc((OS_PAGES + 2) * OS_PAGE_BYTES);
  char *first = (char *)(((uintptr_t)object + OS_PAGE_BYTES - 1) / OS_PAGE_BYTES * OS_PAGE_BYTES);
  kill(getppid(), SIGSTOP);
  while (state_of(getppid()) != 'T')
    usleep(1000);
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < OS_PAGES; i++)
      first[i * OS_PAGE_BYTES] = 1;
    madvise(first, OS_PAGES * OS_PAGE_BYTES, MADV_DONTNEED);
  }
  kill(getppid(), SIGCONT);
}

int main(int argc, char **argv) {
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  mallopt(M_MMAP_THRESHOLD, 65536);
  const char *how = argc > 1 ? argv[1] : "";
  int child = strcmp(how, "fork") == 0 ? fork() : -1;
  pthread_t thread;
  if (strcmp(how, "thread") == 0 && pthread_create(&thread, NULL, touch_all, (void *)5) == 0)
    pthread_join(thread, NULL);
  if (strcmp(how, "overflow") == 0)
    overflow();
  else
    touch_all((void *)10);
  if (child > 0)
    waitpid(child, NULL, 0);
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* A program that changes its root to an empty directory (no /proc, /dev or /dev/shm), drops its rights and its user,
   and starts threads and forks there, is recorded; so is the fork child. */
#include "capture/test/hosts/recording.h"

#include <grp.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAIRS = 3000, THREADS = 30, NOBODY = 65534 };

static void *work(void *unused) {
  for (int i = 0; i < PAIRS; i++)
    free(keep(malloc(100)));
  return unused;
}

int host(void) {
  pthread_t threads[THREADS];
  work(NULL);
  mkdir("empty", 0755);
  if (chroot("empty") != 0 || chdir("/") != 0) {
    puts("may not change its root");
    return 77;
  }
  if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
    return 2;
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, work, NULL) != 0)
      return 3;
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  int child = fork(), status;
  if (child == 0) {
    work(NULL);
    _exit(4);
  }
  waitpid(child, &status, 0);
  printf("%d, child %#x\n", (int)getuid(), (unsigned)status);
  return 0;
}

int test(void) {
  struct recorded recorded = same_as_bare(NULL, NULL);
  rmdir("empty");
  CHECK(recorded.dropped == 0 && recorded.events >= 2ull * PAIRS * (THREADS + 1), "%llu events, %llu dropped",
        (unsigned long long)recorded.events, (unsigned long long)recorded.dropped);
  char paths[3][256];
  CHECK(list_traces(paths, 3) == 2, "the fork child has no trace");
  return 0;
}

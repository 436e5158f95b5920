/* SPDX-License-Identifier: MIT */
/* A process whose threads make threads all the time is held: then it has no thread but those that are held. What shows
   only where a thread is made between the list of threads and the look at them is made likely: the list is closed late
   now and then. */
#include "capture/recorder/redirect/tracee.h"
#include "capture/test/hosts/recording.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOLDS = 3000, MAKERS = 3, LATE_US = 100, SKIPPED = 77 };

/* In place of the C library's, which it calls. */
int closedir(DIR *directory) {
  static int (*real)(DIR *);
  static unsigned calls;
  if (!real)
    *(void **)&real = dlsym(RTLD_NEXT, "closedir");
  if (calls++ % 2)
    usleep(LATE_US);
  return real(directory);
}

static void *end_at_once(void *unused) {
  return unused;
}

static void *make_threads(void *unused) {
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&detached, 64 << 10);
  for (pthread_t thread;;)
    if (pthread_create(&thread, &detached, end_at_once, NULL) != 0)
      usleep(100);
  return unused;
}

static int start_program(void) {
  int pid = fork();
  if (pid != 0)
    return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pthread_t thread;
  for (int i = 0; i < MAKERS; i++)
    pthread_create(&thread, NULL, make_threads, NULL);
  for (;;)
    pause();
}

static bool is_held(const struct tracee *tracee, int tid) {
  for (size_t i = 0; i < tracee->threads.count; i++)
    if (tracee->threads.at[i].tid == tid)
      return true;
  return false;
}

/* May it still make threads? */
static bool runs(const struct tracee *tracee, int tid) {
  char path[64], text[512] = "";
  snprintf(path, sizeof path, "/proc/%d/task/%d/stat", tracee->pid, tid);
  FILE *file = fopen(path, "re");
  size_t got = file ? fread(text, 1, sizeof text - 1, file) : 0;
  if (file)
    fclose(file);
  const char *name_end = got ? strrchr(text, ')') : NULL;
  return name_end && !strchr("ZX", name_end[2]);
}

/* How many threads there are that are not held. */
static unsigned count_others(const struct tracee *tracee) {
  char path[64];
  unsigned others = 0;
  snprintf(path, sizeof path, "/proc/%d/task", tracee->pid);
  DIR *tasks = opendir(path);
  for (const struct dirent *entry; tasks && (entry = readdir(tasks));) {
    int tid = atoi(entry->d_name);
    others += tid > 0 && !is_held(tracee, tid) && runs(tracee, tid);
  }
  if (tasks)
    closedir(tasks);
  return others;
}

int main(void) {
#if !defined(__x86_64__)
  puts("attaching is for x86-64 only");
  return SKIPPED;
#endif
  int pid = start_program();
  unsigned held = 0;
  for (int i = 0; i < HOLDS; i++) {
    struct tracee tracee;
    struct error error = {""};
    CHECK(tracee_open(&tracee, pid, &error) == 0, "%s", error.text);
    if (tracee_hold(&tracee, &error) == 0) {
      unsigned others = count_others(&tracee);
      CHECK(others == 0, "%u threads run on beside %zu that are held (hold %d)", others, tracee.threads.count, i);
      held++;
      tracee_release(&tracee);
    }
    tracee_close(&tracee);
  }
  CHECK(held > 0, "the process could not be held once");
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  return 0;
}

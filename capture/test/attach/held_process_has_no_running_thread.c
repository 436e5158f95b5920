/* SPDX-License-Identifier: MIT */
/* A process whose threads make threads all the time is held: then all its threads are held. An error would show only
   where a thread that was asked to stop makes another one between the reading of the list of threads and the check of
   these threads. The test makes this likely: threads are asked late, when the next list has been read and one more
   thread was made. */
#include "capture/attach/tracee/tracee.h"
#include "capture/test/hosts/recording.h"

#include <sys/ptrace.h>

enum { HOLDS = 50, MAKERS = 3, REST_US = 3000, LIFE_US = 20000, LATE_US = 200, LATE_TIMES = 50, SKIPPED = 77 };

static atomic_uint *made; /* threads made by the program */
static struct {
  pid_t tid[1024];
  size_t count, before; /* `before`: those asked before the list that is being read */
} asked;

/* In place of the C library's. */
long ptrace(enum __ptrace_request request, ...) {
  va_list given;
  va_start(given, request);
  pid_t tid = va_arg(given, pid_t);
  void *address = va_arg(given, void *), *data = va_arg(given, void *);
  va_end(given);
  if (request != PTRACE_INTERRUPT || asked.count == sizeof asked.tid / sizeof *asked.tid)
    return syscall(SYS_ptrace, request, tid, address, data);
  asked.tid[asked.count++] = tid;
  return 0;
}

/* In place of the C library's, which it calls. */
int closedir(DIR *directory) {
  static int (*real)(DIR *);
  unsigned listed = atomic_load(made);
  if (!real)
    *(void **)&real = dlsym(RTLD_NEXT, "closedir");
  for (int i = 0; asked.before && i < LATE_TIMES && atomic_load(made) == listed; i++)
    usleep(LATE_US);
  for (size_t i = 0; i < asked.before; i++)
    syscall(SYS_ptrace, PTRACE_INTERRUPT, asked.tid[i], NULL, NULL);
  if (asked.before)
    usleep(LATE_US);
  asked.count -= asked.before;
  memmove(asked.tid, asked.tid + asked.before, asked.count * sizeof *asked.tid);
  asked.before = asked.count;
  return real(directory);
}

static void *end_soon(void *unused) {
  usleep(LIFE_US);
  return unused;
}

static void *make_threads(void *unused) {
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&detached, 64 << 10);
  for (pthread_t thread;; usleep(REST_US))
    atomic_fetch_add(made, pthread_create(&thread, &detached, end_soon, NULL) == 0);
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

/* The number of threads that are not held. */
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
  made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(made != MAP_FAILED, "mmap");
  int pid = start_program();
  unsigned held = 0;
  for (int i = 0; i < HOLDS; i++) {
    struct tracee tracee;
    struct error error = {0};
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

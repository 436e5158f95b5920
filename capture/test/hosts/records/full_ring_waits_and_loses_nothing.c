/* SPDX-License-Identifier: MIT */
/* With a collector that stands still for a while, the host waits and then continues: no event is lost. */
#include "capture/test/hosts/recording.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 100000, BYTES = 88 };

/* Shared by host and helper. */
struct progress {
  volatile int rounds;  /* done by the host */
  volatile int stopped; /* where it stood still */
};

static void wait_a_little(void) {
  nanosleep(&(struct timespec){0, 20000000}, NULL);
}

/* 'S': asleep, 'T': stopped, ... Without malloc, for which the helper, a fork child, would need the stopped
   collector. */
static char state_of(int pid) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  int fd = open(path, O_RDONLY);
  ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0)
    close(fd);
  text[got > 0 ? got : 0] = '\0';
  const char *after_name = strrchr(text, ')');
  return after_name && strlen(after_name) > 2 ? after_name[2] : '?';
}

/* Lets the collector continue once the host stands still and sleeps. If the host does not wait, this ends before. */
static void release_when_it_waits(struct progress *progress, int host, int recorder) {
  for (;;) {
    int before = progress->rounds;
    wait_a_little();
    if (before == ROUNDS)
      break;
    if (before > 0 && state_of(recorder) == 'T' && state_of(host) == 'S' && progress->rounds == before) {
      progress->stopped = before;
      break;
    }
  }
  kill(recorder, SIGCONT);
}

int host(void) {
  struct progress *progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int recorder = getppid(), self = getpid();
  if (progress == MAP_FAILED)
    return 2;
  kill(recorder, SIGSTOP);
  if (fork() == 0) {
    release_when_it_waits(progress, self, recorder);
    _exit(0);
  }
  for (int i = 0; i < ROUNDS; i++) {
    free(keep(malloc(BYTES)));
    progress->rounds = i + 1;
  }
  return progress->stopped > 0 && progress->stopped < ROUNDS ? 0 : 1; /* it did wait */
}

int test(void) {
  int status = record_self(NULL);
  CHECK(status == 0, "status %x", status);
  struct recorded recorded = read_trace("t.tape", NULL, NULL);
  CHECK(recorded.calls[CALL_malloc] == ROUNDS && recorded.dropped == 0, "%llu of %d",
        (unsigned long long)recorded.calls[CALL_malloc], ROUNDS);
  return 0;
}

/* With a collector that stands still for a while, the host waits and then goes on: not one event is lost. */
#include "capture/test/hosts/recording.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 100000, BYTES = 88, PAUSE_MS = 200 };

static int host(void) {
  struct timespec before, after;
  int recorder = getppid(), helper = fork();
  if (helper == 0) {
    usleep(PAUSE_MS * 1000);
    kill(recorder, SIGCONT);
    _exit(0);
  }
  clock_gettime(CLOCK_MONOTONIC, &before);
  kill(recorder, SIGSTOP);
  for (int i = 0; i < ROUNDS; i++)
    free(keep(malloc(BYTES)));
  clock_gettime(CLOCK_MONOTONIC, &after);
  long ms = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
  return ms >= PAUSE_MS / 2 ? 0 : 1; /* it did wait */
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1)
    return host();
  recording_directory();
  int status = record_self((const char *const[]){"-o", "t.tape", NULL});
  CHECK(status == 0, "status %x", status);
  struct recorded recorded = read_trace("t.tape", NULL, NULL);
  CHECK(recorded.calls[CALL_malloc] == ROUNDS && recorded.dropped == 0, "%llu of %d",
        (unsigned long long)recorded.calls[CALL_malloc], ROUNDS);
  return 0;
}

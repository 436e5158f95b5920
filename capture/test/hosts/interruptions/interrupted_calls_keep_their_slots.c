/* SPDX-License-Identifier: MIT */
/* A handler interrupts between taking a slot and writing its record, fills the ring, and is itself interrupted at such
   a place, six deep: the handlers' records are exact, also after the interrupted calls have been completed, which are
   recorded or counted as dropped. The same where the handlers leave by siglongjmp, two hundred times.

   Single steps take so long that the recorder's tick would advance in the middle of most of these calls, which would
   then not be in the common case. So the recorder is stopped meanwhile; a timer lets it continue where the host must
   wait for it. */
#include "capture/test/hosts/interruptions/single_step.h"
#include "capture/test/hosts/recording.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <sys/time.h>
#include <unistd.h>

enum {
  LEVELS = 6,
  LEFT = 40,   /* per instruction */
  LAST = 20,   /* instructions of the hook of calloc, among which are those between taking and writing */
  FILL = 8600, /* objects: they have more records than a ring holds */
  FILL_BYTES = 700,
  STOPPED_MOST_US = 50000,
  MAIN_BYTES = 25, /* so that an object is mostly at the tag entry of the previous one */
};

static int depth, at_instruction;
static sigjmp_buf back;

static volatile sig_atomic_t goes_on;

static void recorder_goes_on(int signal) {
  (void)signal;
  goes_on = 1;
  kill(getppid(), SIGCONT);
}

static bool recorder_has_stopped(void) {
  char path[32], stat[128];
  snprintf(path, sizeof path, "/proc/%d/stat", getppid());
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t bytes = read(fd, stat, sizeof stat - 1);
  close(fd);
  stat[bytes > 0 ? bytes : 0] = '\0';
  const char *after_name = strrchr(stat, ')');
  return after_name && strncmp(after_name, ") T", 3) == 0;
}

static void stop_recorder(void) {
  goes_on = 0;
  setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = STOPPED_MOST_US}, NULL);
  kill(getppid(), SIGSTOP);
  while (!goes_on && !recorder_has_stopped())
    usleep(20);
}

static void continue_recorder(void) {
  setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 0}, NULL);
  recorder_goes_on(0);
}

static void fill(void) {
  for (int i = 0; i < FILL; i++)
    free(keep(malloc(FILL_BYTES)));
}

/* A calloc, two records, which is interrupted. The call before it makes it the common case. */
static void call(void) {
  depth++;
  stop_recorder();
  keep(calloc(1, MAIN_BYTES));
  step_begin(at_instruction);
  keep(calloc(1, MAIN_BYTES));
  step_end();
  continue_recorder();
}

static void nest(void) {
  continue_recorder();
  sigset_t trap;
  sigemptyset(&trap);
  sigaddset(&trap, SIGTRAP);
  sigprocmask(SIG_UNBLOCK, &trap, NULL);
  fill();
  if (depth < LEVELS)
    call();
}

/* The instructions of a call in the common case. */
static int least_instructions(void) {
  enum { TRIES = 16 };
  int least = INT_MAX;
  at_instruction = INT_MAX;
  for (int i = 0; i < TRIES; i++) {
    call();
    least = step_count < least ? step_count : least;
  }
  return least;
}

static void leave(void) {
  continue_recorder();
  siglongjmp(back, 1);
}

int host(void) {
  signal(SIGALRM, recorder_goes_on);
  step_prepare(nest);
  int from = least_instructions() - LAST;
  for (at_instruction = from; at_instruction < from + LAST; at_instruction++) {
    depth = 0;
    call();
    fill();
  }
  step_prepare(leave);
  for (at_instruction = from; at_instruction < from + LAST; at_instruction += 4)
    for (volatile int i = 0; i < LEFT; i++)
      if (sigsetjmp(back, 1) == 0)
        call();
  fill();
  return 0;
}

struct seen {
  uint64_t last;
  long allocated, freed, main;
};

static void count(void *context, uint32_t thread, const struct trace_event *event) {
  struct seen *seen = context;
  (void)thread;
  if ((event->call & CALL_ID_MASK) == CALL_malloc && event->size_bytes == FILL_BYTES) {
    seen->allocated++;
    seen->last = event->acquired;
  } else if ((event->call & CALL_ID_MASK) == CALL_free && event->released && event->released == seen->last) {
    seen->freed++;
    seen->last = 0;
  } else if ((event->call & CALL_ID_MASK) == CALL_calloc && event->size_bytes == MAIN_BYTES) {
    seen->main++;
  }
}

int test(void) {
  if (!CAN_STEP)
    return puts("instructions can be stepped through on x86-64 alone"), 77;
  CHECK(record_self(NULL) == 0, "the host failed");
  struct seen seen = {0};
  struct recorded recorded = read_trace("t.tape", count, &seen);
  long fills = ((long)LAST * (LEVELS + 1) + 1) * FILL, calls = 2 * LAST * LEVELS;
  CHECK(seen.allocated == fills && seen.freed == fills, "%ld, %ld of %ld", seen.allocated, seen.freed, fills);
  CHECK(seen.main + (long)recorded.dropped >= calls, "%ld recorded and %llu dropped of %ld", seen.main,
        (unsigned long long)recorded.dropped, calls);
  CHECK(recorded.dropped > 0, "no call was interrupted where it was meant");
  return 0;
}

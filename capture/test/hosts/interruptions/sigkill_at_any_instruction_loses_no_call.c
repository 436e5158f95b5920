/* SPDX-License-Identifier: MIT */
/* SIGKILL comes after each instruction of a hook in turn, each time in another child: its trace has every call that had
   returned, at most also the interrupted one, and is complete. */
#include "capture/test/hosts/interruptions/single_step.h"
#include "capture/test/hosts/recording.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 600, BEFORE = 5, CHILDREN_MAX = 200 };

static struct { int pid, allocated, freed; } * calls; /* of each child, in a file that the driver reads */

static void die(void) {
  kill(getpid(), SIGKILL);
}

static void map_calls(void) {
  FILE *file = fopen("calls", "a+");
  CHECK(file && ftruncate(fileno(file), 4096) == 0, "calls");
  calls = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
}

static void call(int child) {
  void *object = keep(malloc(BYTES));
  calls[child].allocated++;
  free(object);
  calls[child].freed++;
}

/* True: it was not killed. */
static bool run_child(int child) {
  int pid = fork(), status;
  if (pid == 0) {
    calls[child].pid = getpid();
    for (int i = 0; i < BEFORE; i++)
      call(child);
    step_begin(child);
    call(child);
    step_end();
    _exit(0);
  }
  CHECK(waitpid(pid, &status, 0) == pid, "waitpid");
  return WIFEXITED(status);
}

int host(void) {
  map_calls();
  step_prepare(die);
  int child = 0;
  while (!run_child(child))
    CHECK(++child < CHILDREN_MAX, "more than %d instructions", CHILDREN_MAX);
  CHECK(child > 20, "only %d instructions", child);
  return 0;
}

struct seen {
  uint64_t last;
  int allocated, freed;
};

static void count(void *context, uint32_t thread, const struct trace_event *event) {
  struct seen *seen = context;
  (void)thread;
  if (event->size_bytes == BYTES) {
    seen->allocated++;
    seen->last = event->acquired;
  } else if (event->released && event->released == seen->last) {
    seen->freed++;
    seen->last = 0;
  }
}

int test(void) {
  if (!CAN_STEP)
    return puts("instructions can be stepped through on x86-64 alone"), 77;
  CHECK(record_self(NULL) == 0, "the host failed");
  map_calls();
  int child = 0;
  for (; child < CHILDREN_MAX && calls[child].pid; child++) {
    char path[64];
    snprintf(path, sizeof path, "t.%d.tape", calls[child].pid);
    struct seen seen = {0};
    struct recorded recorded = read_trace(path, count, &seen);
    CHECK(recorded.dropped == 0 && !recorded.truncated, "%s: dropped or truncated", path);
    CHECK(seen.allocated - calls[child].allocated == 0 || seen.allocated - calls[child].allocated == 1,
          "child %d: %d allocations of %d", child, seen.allocated, calls[child].allocated);
    CHECK(seen.freed - calls[child].freed == 0 || seen.freed - calls[child].freed == 1, "child %d: %d frees of %d",
          child, seen.freed, calls[child].freed);
  }
  CHECK(child > 20, "only %d children", child);
  return 0;
}

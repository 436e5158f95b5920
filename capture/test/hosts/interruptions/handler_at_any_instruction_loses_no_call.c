/* SPDX-License-Identifier: MIT */
/* A handler interrupts after each instruction of a hook in turn, and allocates and frees, or leaves by siglongjmp: the
   calls of both are recorded exactly, in their order. The hooks are in their common case, in the case where another
   thread has touched the object's place last, and in the case after a pause, where they make room. */
#include "capture/test/hosts/interruptions/single_step.h"
#include "capture/test/hosts/recording.h"
#include "capture/wire/heaptape.h"

#include <pthread.h>
#include <setjmp.h>

enum { MAIN_BYTES = 600, RESIZED_BYTES = 610, HANDLER_BYTES = 3000, AFTER_BYTES = 5050, STEPS_MAX = 2000, STRIDE = 5 };

static sigjmp_buf back;
static void *of_other_thread[STEPS_MAX];
static int handled;
static enum { OF_MALLOC, OF_REALLOC, OF_FREE, STEPPED } stepped; /* one of three calls, as each step takes long */

static void allocate(void) {
  handled++;
  free(keep(malloc(HANDLER_BYTES)));
}
static void leave(void) {
  siglongjmp(back, 1);
}

static void *make(void *unused) {
  for (int i = 0; i < STEPS_MAX; i++)
    of_other_thread[i] = malloc(MAIN_BYTES);
  return unused;
}

/* True: the calls were over before instruction `at`. */
static bool local(int at) {
  if (stepped == OF_MALLOC)
    step_begin(at);
  void *object = keep(malloc(MAIN_BYTES));
  step_end();
  if (stepped == OF_REALLOC)
    step_begin(at);
  object = keep(realloc(object, RESIZED_BYTES));
  step_end();
  if (stepped == OF_FREE)
    step_begin(at);
  free(object);
  step_end();
  return step_count <= at;
}
static bool remote(int at) {
  step_begin(at);
  free(of_other_thread[at]);
  step_end();
  return step_count <= at;
}

static bool after_a_pause(int at) {
  heaptape_pause();
  free(keep(malloc(MAIN_BYTES)));
  heaptape_resume();
  step_begin(at);
  free(keep(malloc(MAIN_BYTES)));
  step_end();
  return step_count <= at;
}

/* Interrupts after every stride-th instruction. Returns how often. */
static int go_through(bool (*calls)(int at), int stride) {
  for (volatile int at = 0; at < STEPS_MAX * stride; at += stride) {
    if (sigsetjmp(back, 1) == 0 && calls(at))
      return at / stride;
    for (int i = 0; i < 3; i++)
      free(keep(malloc(AFTER_BYTES)));
  }
  CHECK(false, "more than %d instructions", STEPS_MAX * stride);
  return 0;
}

int host(void) {
  pthread_t other;
  for (int leaves = 0; leaves < 2; leaves++) {
    CHECK(pthread_create(&other, NULL, make, NULL) == 0 && pthread_join(other, NULL) == 0, "a thread");
    step_prepare(leaves ? leave : allocate);
    int steps_local = 0;
    for (stepped = OF_MALLOC; stepped < STEPPED; stepped++)
      steps_local += go_through(local, 1);
    int steps_remote = go_through(remote, 1), pauses = go_through(after_a_pause, STRIDE);
    CHECK(steps_local > 50 && steps_remote > 20 && pauses > 5, "only %d, %d and %d instructions", steps_local,
          steps_remote, STRIDE * pauses);
    FILE *file = fopen("calls", "a");
    CHECK(file && fprintf(file, "%d %d\n", steps_local + steps_remote + pauses, handled) > 0, "calls");
    CHECK(fclose(file) == 0, "calls");
  }
  return 0;
}

struct seen {
  uint64_t last[2]; /* the object that the handler, or the code after it, has just been given */
  int allocated[2], freed[2];
};

static void count(void *context, uint32_t thread, const struct trace_event *event) {
  struct seen *seen = context;
  bool after = event->size_bytes == AFTER_BYTES;
  if (thread != 0)
    return;
  if ((event->call & CALL_ID_MASK) == CALL_malloc && (after || event->size_bytes == HANDLER_BYTES)) {
    seen->allocated[after]++;
    seen->last[after] = event->acquired;
  }
  for (int i = 0; i < 2 && (event->call & CALL_ID_MASK) == CALL_free; i++) {
    if (event->released && event->released == seen->last[i]) {
      seen->freed[i]++;
      seen->last[i] = 0;
    }
  }
}

int test(void) {
  if (!CAN_STEP)
    return puts("instructions can be stepped through on x86-64 alone"), 77;
  CHECK(record_self(NULL) == 0, "the host failed");
  int steps[2], allocations[2];
  FILE *file = fopen("calls", "r");
  for (int i = 0; i < 2; i++)
    CHECK(file && fscanf(file, "%d %d", &steps[i], &allocations[i]) == 2, "calls");
  fclose(file);
  struct seen seen = {0};
  read_trace("t.tape", count, &seen);
  int after = 3 * (steps[0] + steps[1]);
  CHECK(seen.allocated[0] == allocations[1] && seen.freed[0] == allocations[1], "handler: %d, %d of %d",
        seen.allocated[0], seen.freed[0], allocations[1]);
  CHECK(seen.allocated[1] == after && seen.freed[1] == after, "after it: %d, %d of %d", seen.allocated[1],
        seen.freed[1], after);
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* A handler comes between the taking and the writing of a record, fills the ring, and is itself interrupted at such a
   place, six deep: what the handlers record is exact, also after the interrupted calls have been completed, which are
   recorded or counted as dropped. The same where the handlers leave by siglongjmp, two hundred times. */
#include "capture/test/hosts/recording.h"
#include "capture/test/hosts/single_step.h"

#include <limits.h>
#include <setjmp.h>

enum {
  LEVELS = 6,
  LEFT = 40,   /* of each instruction */
  LAST = 20,   /* instructions of the hook of calloc, among which are those between taking and writing */
  FILL = 8600, /* objects: their records are more than a ring holds */
  FILL_BYTES = 700,
  MAIN_BYTES = 25, /* so that one is mostly at the entry of the one before */
};

static int depth, at_instruction;
static sigjmp_buf back;

static void fill(void) {
  for (int i = 0; i < FILL; i++)
    free(keep(malloc(FILL_BYTES)));
}

/* A calloc, two records, which is interrupted. The one before makes it the common case. */
static void call(void) {
  depth++;
  keep(calloc(1, MAIN_BYTES));
  step_begin(at_instruction);
  keep(calloc(1, MAIN_BYTES));
  step_end();
}

static void nest(void) {
  sigset_t trap;
  sigemptyset(&trap);
  sigaddset(&trap, SIGTRAP);
  sigprocmask(SIG_UNBLOCK, &trap, NULL);
  fill();
  if (depth < LEVELS)
    call();
}

/* Of a call in the common case. */
static int least_instructions(void) {
  enum { TRIES = 64 };
  int least = INT_MAX;
  at_instruction = INT_MAX;
  for (int i = 0; i < TRIES; i++) {
    call();
    least = step_count < least ? step_count : least;
  }
  return least;
}

static void leave(void) {
  siglongjmp(back, 1);
}

int host(void) {
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
    return 77;
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

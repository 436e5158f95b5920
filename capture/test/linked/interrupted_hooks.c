/* SPDX-License-Identifier: MIT */
/* Interrupts malloc and free after each instruction of the library, by a handler that allocates, and then by one that
   also leaves by longjmp. Prints how often the program and the handler called malloc. The recorder, our parent, is
   stopped meanwhile, as single steps outlast its tick. Linked with an allocator. */
#include "capture/test/hosts/single_step.h"

enum { MAIN_BYTES = 1001, HANDLER_BYTES = 2002, AFTER_BYTES = 3003, MOST = 400 };

static sigjmp_buf back;
static volatile int leaves, handled, called, after;
static void *volatile object;

static void act(void) {
  handled++;
  free(malloc(HANDLER_BYTES));
  if (leaves)
    siglongjmp(back, 1);
}

/* Were the calls over before instruction `at`? */
static bool interrupt(bool of_free, int at) {
  if (!of_free)
    step_begin(at);
  object = malloc(MAIN_BYTES);
  step_end();
  if (of_free)
    step_begin(at);
  free(object);
  step_end();
  called++;
  return step_count <= at;
}

int main(void) {
  step_prepare(act);
  free(malloc(AFTER_BYTES));
  kill(getppid(), SIGSTOP);
  free(malloc(AFTER_BYTES)); /* stamped */
  for (leaves = 0; leaves < 2; leaves++)
    for (volatile int of_free = 0; of_free < 2; of_free++)
      for (volatile int at = 0; at < MOST; at++) {
        bool over = sigsetjmp(back, 1) == 0 && interrupt(of_free, at);
        free(malloc(AFTER_BYTES));
        after++;
        if (over)
          break;
      }
  kill(getppid(), SIGCONT);
  printf("%d %d %d\n", called, handled, after + 2);
  return 0;
}

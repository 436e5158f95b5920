/* SPDX-License-Identifier: MIT */
/* In a pause, a handler interrupts a call after each of its instructions in turn, and makes calls itself. Prints how
   many calls there were in the pause, and how many instructions. */
#include "capture/test/hosts/single_step.h"
#include "capture/wire/heaptape.h"
#include <stdlib.h>
static int calls;
static void call(void) {
  void *volatile object = malloc(100);
  free(object);
  calls += 2;
}
int main(void) {
  int at = 0;
  step_prepare(call);
  call();
  heaptape_pause();
  calls = 0;
  call();
  do {
    step_begin(at);
    void *volatile object = malloc(100);
    step_end();
    free(object);
    calls += 2;
  } while (step_gave_up || step_count > at++);
  heaptape_resume();
  call();
  printf("%d %d\n", calls - 2, at);
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* A program whose every call of malloc is made by a fiber, on a stack of 8 KiB that comes from malloc; 64 KiB on both
   sides of it hold a pattern. Prints a line when it runs; ends at the end of its input, with status 1 if a pattern has
   changed. */
#include "core/test/usual.h"

#include <sys/select.h>

enum { FIBERS = 4, STACK_BYTES = 8 << 10, SIDE_BYTES = 64 << 10, PATTERN = 0x5a };

static ucontext_t main_context, context[FIBERS];
static unsigned char *block[FIBERS];
static volatile unsigned long rounds;

static void fiber(void) {
  volatile char needed[2048];
  for (;;) {
    needed[rounds % sizeof needed] = 1;
    free(malloc(100));
    unsigned long own = rounds++ % FIBERS;
    swapcontext(&context[own], rounds % 100 ? &context[rounds % FIBERS] : &main_context);
  }
}

static int input_is_open(void) {
  fd_set input;
  struct timeval at_once = {0, 1000};
  FD_ZERO(&input);
  FD_SET(0, &input);
  return select(1, &input, NULL, NULL, &at_once) == 0;
}

int main(void) {
  for (int i = 0; i < FIBERS; i++) {
    block[i] = malloc(STACK_BYTES + 2 * SIDE_BYTES);
    memset(block[i], PATTERN, STACK_BYTES + 2 * SIDE_BYTES);
    getcontext(&context[i]);
    context[i].uc_stack.ss_sp = block[i] + SIDE_BYTES;
    context[i].uc_stack.ss_size = STACK_BYTES;
    makecontext(&context[i], fiber, 0);
  }
  swapcontext(&main_context, &context[0]);
  if (write(1, "\n", 1) != 1)
    return 2;
  while (input_is_open())
    swapcontext(&main_context, &context[rounds % FIBERS]);
  for (int i = 0; i < FIBERS; i++)
    for (int at = 0; at < SIDE_BYTES; at++)
      if (block[i][at] != PATTERN || block[i][SIDE_BYTES + STACK_BYTES + at] != PATTERN)
        return 1;
  return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/* A call of the malloc API (this program's own malloc_trim) that is left by longjmp, or interrupted by a handler on a
   separate stack at higher addresses; loops that are known to be the program's or the allocator's. */
#include "core/test/usual.h"

enum { LOOPS = 100000, STACK_BYTES = 65536, WITH_JUMP = 1, WITH_SIGNAL = 2 };

static jmp_buf back;

static void loop(void) {
  for (volatile int i = 0; i < LOOPS; i++)
    ;
}

static void handle(int number) {
  (void)number;
  loop();
}

int malloc_trim(size_t how) {
  if (how == WITH_JUMP)
    longjmp(back, 1);
  if (how == WITH_SIGNAL)
    raise(SIGUSR1);
  loop();
  return 0;
}

int main(int count, char **arguments) {
  char above[STACK_BYTES];
  stack_t stack = {.ss_sp = above, .ss_size = sizeof above};
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
  if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0)
    return 1;
  const char *how = count > 1 ? arguments[1] : "";
  static size_t request; /* static: gcc 16 warns of variables that setjmp's second return could find changed */
  request = strcmp(how, "jump") == 0 ? WITH_JUMP : strcmp(how, "signal") == 0 ? WITH_SIGNAL : 0;
  if (setjmp(back) == 0)
    malloc_trim(request);
  loop();
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* Compiled twice. As a library (-DALLOCATOR) it is an allocator whose malloc of 31,415 bytes waits until the program's
   word is set. As a program it reads commands, each answered by a line: c makes 1,000 calls; b lets a thread begin that
   malloc, where with an argument a signal handler, on a stack of its own, interrupts it; w lets it end, and waits for
   the thread. */
#include "core/test/usual.h"

enum { SLOW_BYTES = 31415, STACK_BYTES = 64 << 10, GUARD_BYTES = 4096 };

#ifdef ALLOCATOR
void *__libc_malloc(size_t bytes);
atomic_int may_end, sleeps;

void *malloc(size_t bytes) {
  if (bytes == SLOW_BYTES) {
    atomic_store(&sleeps, 1);
    while (!atomic_load(&may_end))
      usleep(1000);
  }
  return __libc_malloc(bytes);
}
#else
extern atomic_int may_end, sleeps;

static atomic_int interrupted;

static void sleep_in_handler(int signal) {
  (void)signal;
  atomic_store(&interrupted, 1);
  while (!atomic_load(&may_end))
    usleep(1000);
}

static void *sleep_in_malloc(void *unused) {
  char *area = mmap(NULL, STACK_BYTES + 2 * GUARD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack_t stack = {.ss_sp = area + GUARD_BYTES, .ss_size = STACK_BYTES};
  mprotect(stack.ss_sp, STACK_BYTES, PROT_READ | PROT_WRITE);
  sigaltstack(&stack, NULL);
  free(malloc(SLOW_BYTES));
  return unused;
}

int main(int count, char **argument) {
  pthread_t thread;
  struct sigaction action = {.sa_handler = sleep_in_handler, .sa_flags = SA_ONSTACK};
  (void)argument;
  sigaction(SIGUSR1, &action, NULL);
  for (char command; read(0, &command, 1) == 1;) {
    if (command == 'c')
      for (int i = 0; i < 1000; i++)
        free(malloc(4242));
    if (command == 'b') {
      pthread_create(&thread, NULL, sleep_in_malloc, NULL);
      while (!atomic_load(&sleeps))
        usleep(1000);
      if (count > 1)
        pthread_kill(thread, SIGUSR1);
      while (count > 1 && !atomic_load(&interrupted))
        usleep(1000);
    }
    if (command == 'w') {
      atomic_store(&may_end, 1);
      pthread_join(thread, NULL);
    }
    if (write(1, "\n", 1) != 1)
      return 2;
  }
  return 0;
}
#endif

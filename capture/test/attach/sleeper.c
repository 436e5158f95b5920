/* SPDX-License-Identifier: MIT */
/* Compiled twice. As a library (-DALLOCATOR) it is an allocator whose malloc of 31,415 bytes waits until the program's
   word is set. As a program it reads commands, each answered by a line: c makes 1,000 calls; b lets a thread begin that
   malloc; w lets it end, and waits for the thread. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { SLOW_BYTES = 31415 };

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

static void *sleep_in_malloc(void *unused) {
  free(malloc(SLOW_BYTES));
  return unused;
}

int main(void) {
  pthread_t thread;
  for (char command; read(0, &command, 1) == 1;) {
    if (command == 'c')
      for (int i = 0; i < 1000; i++)
        free(malloc(4242));
    if (command == 'b') {
      pthread_create(&thread, NULL, sleep_in_malloc, NULL);
      while (!atomic_load(&sleeps))
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

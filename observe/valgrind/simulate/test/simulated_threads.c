/* SPDX-License-Identifier: GPL-2.0-only */
/* Four threads that use the allocator one after the other, synchronised by pipes: a read of a pipe is one system call
   whether it has to wait or not, so each run executes the same instructions. */
#include "core/test/usual.h"

enum { THREADS = 4, ROUNDS = 5, OBJECTS = 200 };

static int to_thread[THREADS][2], back[2];

static void pass(int fd) {
  if (write(fd, "x", 1) != 1)
    abort();
}

static void wait_for(int fd) {
  char byte;
  if (read(fd, &byte, 1) != 1)
    abort();
}

static void *work(void *argument) {
  long number = (long)argument;
  char *objects[OBJECTS];
  pass(back[1]);
  for (int round = 0; round < ROUNDS; round++) {
    wait_for(to_thread[number][0]);
    for (int i = 0; i < OBJECTS; i++) {
      objects[i] = malloc(16 + (size_t)((i * 37 + number) % 900));
      memset(objects[i], i, 16);
    }
    for (int i = 0; i < OBJECTS; i++)
      free(objects[i]);
    pass(back[1]);
  }
  wait_for(to_thread[number][0]);
  return NULL;
}

int main(void) {
  pthread_t threads[THREADS];
  if (pipe(back) != 0)
    return 1;
  for (long i = 0; i < THREADS; i++) {
    if (pipe(to_thread[i]) != 0 || pthread_create(&threads[i], NULL, work, (void *)i) != 0)
      return 1;
    wait_for(back[0]);
  }
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < THREADS; i++) {
      pass(to_thread[i][1]);
      wait_for(back[0]);
    }
  }
  poll(NULL, 0, 200); /* until all are blocked in their reads; a join would wait or not, by different instructions */
  _exit(0);
}

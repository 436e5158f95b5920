/* SPDX-License-Identifier: MIT */
/* Calls malloc, while other threads put a file that it may only read in the place of the first descriptor from 400 on.
 */
#include "core/test/usual.h"

static int file;

static void *swap(void *unused) {
  for (;;)
    if (fcntl(400, F_GETFD) >= 0)
      dup2(file, 400);
  return unused;
}

int main(int count, char **arguments) {
  pthread_t thread;
  file = open(arguments[count - 1], O_RDONLY | O_CLOEXEC);
  for (int i = 0; i < 4; i++)
    pthread_create(&thread, NULL, swap, NULL);
  write(1, "\n", 1);
  for (;;)
    free(malloc(16));
}

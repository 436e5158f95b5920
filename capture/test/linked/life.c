/* SPDX-License-Identifier: MIT */
/* With jemalloc in the executable: forks, and then execs itself. Each image, and the child, acquires objects whose size
   identifies it, and releases them; objects from before the fork are released in both. */
#include "core/test/usual.h"

static void calls(int count, size_t bytes) {
  for (int i = 0; i < count; i++)
    free(memset(malloc(bytes), 1, bytes));
}

int main(int argc, char **argv) {
  if (argc > 1) {
    calls(30, 333);
    return 0;
  }
  void *before = malloc(555);
  calls(10, 111);
  int child = fork();
  if (child == 0) {
    calls(20, 222);
    free(before);
    _exit(0);
  }
  int status;
  if (waitpid(child, &status, 0) != child || status != 0)
    return 1;
  free(before);
  execl(argv[0], argv[0], "again", NULL);
  return 2;
}

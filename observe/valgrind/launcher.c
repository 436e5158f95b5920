/* SPDX-License-Identifier: GPL-2.0-only */
/* Starts the tool in VALGRIND_LIB with the given arguments, as Valgrind's own launcher does, which Valgrind also
   executes for each child that it follows. Ours runs on every C library that the rest of heaptape does, and there is
   one tool, for one platform. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int fail(const char *what) {
  fprintf(stderr, "valgrind: %s\n", what);
  return 1;
}

int main(int argc, char **argv) {
  (void)argc;
  char self[4096], tool[4096];
  const char *library = getenv("VALGRIND_LIB");
  ssize_t bytes = readlink("/proc/self/exe", self, sizeof self - 1);
  if (!library || bytes <= 0)
    return fail("VALGRIND_LIB is not set, or /proc is not mounted");
  self[bytes] = '\0';
  if (setenv("VALGRIND_LAUNCHER", self, 1) != 0 ||
      snprintf(tool, sizeof tool, "%s/heaptape-amd64-linux", library) >= (int)sizeof tool)
    return fail("VALGRIND_LIB is too long");
  execv(tool, argv);
  perror(tool);
  return 1;
}

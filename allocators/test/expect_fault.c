/* SPDX-License-Identifier: MIT */
#include "allocators/test/expect_fault.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

void *object_before_another(size_t object_bytes) {
  void *object = allocator_malloc(object_bytes);
  void *guard = allocator_malloc(object_bytes);
  if (!object || !guard)
    exit(3);
  return object;
}

static void become_child(char **arguments, const char *tunables, int error_fd) {
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  setenv(allocator_variable, tunables, 1);
  dup2(error_fd, STDERR_FILENO);
  execl("/proc/self/exe", arguments[0], "corrupt", (char *)NULL);
  _exit(127);
}

int expect_fault(char **arguments, const char *tunables, void (*corrupt)(void), const char *line) {
  if (arguments[1]) {
    corrupt();
    return 0;
  }
  int ends[2], status;
  if (pipe(ends) != 0)
    return 2;
  pid_t child = fork();
  if (child == 0)
    become_child(arguments, tunables, ends[1]);
  close(ends[1]);
  char said[1024] = "";
  size_t used = 0;
  ssize_t got;
  while (used < sizeof said - 1 && (got = read(ends[0], said + used, sizeof said - 1 - used)) > 0)
    used += (size_t)got;
  said[used] = '\0';
  waitpid(child, &status, 0);
  char *emulator = strstr(said, "qemu: uncaught target signal"); /* where it runs by one */
  if (emulator)
    *emulator = '\0';
  char *end = strchr(said, '\n');
  size_t name_length = strlen(allocator_name);
  bool named = strncmp(said, allocator_name, name_length) == 0 && strncmp(said + name_length, ": ", 2) == 0;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && named && end && end[1] == '\0' && strstr(said, line))
    return 0;
  fprintf(stderr, "expected abort() after \"%s: ... %s ...\"; wait status %#x, said: %s\n", allocator_name, line,
          status, said);
  return 1;
}

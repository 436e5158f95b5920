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

static void become_child(char **arguments, const struct fault_case *one, int error_fd) {
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  setenv(allocator_variable, one->tunables, 1);
  dup2(error_fd, STDERR_FILENO);
  execl("/proc/self/exe", arguments[0], one->name, (char *)NULL);
  _exit(127);
}

static int expect_fault(char **arguments, const struct fault_case *one) {
  int ends[2], status;
  if (pipe(ends) != 0)
    return 2;
  pid_t child = fork();
  if (child == 0)
    become_child(arguments, one, ends[1]);
  close(ends[1]);
  char output[1024] = "";
  size_t used = 0;
  ssize_t got;
  while (used < sizeof output - 1 && (got = read(ends[0], output + used, sizeof output - 1 - used)) > 0)
    used += (size_t)got;
  output[used] = '\0';
  close(ends[0]);
  waitpid(child, &status, 0);
  char *emulator = strstr(output, "qemu: uncaught target signal"); /* if it runs in an emulator */
  if (emulator)
    *emulator = '\0';
  char *end = strchr(output, '\n');
  size_t name_length = strlen(allocator_name);
  bool named = strncmp(output, allocator_name, name_length) == 0 && strncmp(output + name_length, ": ", 2) == 0;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && named && end && end[1] == '\0' && strstr(output, one->line))
    return 0;
  fprintf(stderr, "%s: expected abort() after \"%s: ... %s ...\"; wait status %#x, output: %s\n", one->name,
          allocator_name, one->line, status, output);
  return 1;
}

/* Returns how many of the cases failed; runs the case of that name, if one is given. */
static int run(const char *name, char **arguments, const struct fault_case *cases) {
  int failed = 0;
  for (const struct fault_case *one = cases; one->name; one++) {
    if (!name)
      failed += expect_fault(arguments, one) != 0;
    else if (strcmp(one->name, name) == 0)
      one->corrupt();
  }
  return failed;
}

int expect_faults(int argument_count, char **arguments, const struct fault_case *cases) {
  const char *name = argument_count > 1 ? arguments[1] : NULL;
  return run(name, arguments, cases_of_any_heap) + run(name, arguments, cases) > 0;
}

/* SPDX-License-Identifier: MIT */
#include "allocators/test/counted.h"

#include "allocators/common/allocator.h"
#include "allocators/common/entry.h"
#include "core/test/usual.h"

enum { STATS = 64 };

uint64_t counted(const char *name) {
  struct allocator_stat stats[STATS];
  size_t count = heaptape_allocator_stats(stats, STATS);
  for (size_t index = 0; index < count; index++)
    if (strcmp(stats[index].name, name) == 0)
      return stats[index].value;
  fprintf(stderr, "no counter %s\n", name);
  exit(1);
}

int run_under(char **arguments, const char *tunables, const char *argument) {
  pid_t child = fork();
  if (child == 0) {
    setenv(allocator_variable, tunables, 1);
    execl("/proc/self/exe", arguments[0], argument, (char *)NULL);
    _exit(127);
  }
  int status;
  waitpid(child, &status, 0);
  if (status != 0)
    fprintf(stderr, "under %s\n", tunables);
  return status != 0;
}

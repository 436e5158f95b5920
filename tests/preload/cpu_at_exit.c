/* SPDX-License-Identifier: MIT */
/* Writes the process's own user and system time, in microseconds, to the file that CPU_AT_EXIT names, when it exits.
   Preloaded into a program with and without heaptape, it shows the cost of recording to the program, without the
   collector. Only the first process image to exit is measured: do not use it for programs with children. */
#include "core/test/usual.h"

__attribute__((destructor)) static void write_cpu_time(void) {
  struct rusage usage;
  const char *path = getenv("CPU_AT_EXIT");
  if (!path || getrusage(RUSAGE_SELF, &usage) != 0)
    return;
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0)
    return;
  dprintf(fd, "%lld\n",
          (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000LL + usage.ru_utime.tv_usec +
              usage.ru_stime.tv_usec);
  close(fd);
}

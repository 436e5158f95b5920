/* SPDX-License-Identifier: MIT */
#include "core/processes/proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int proc_open(int pid, const char *name) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  return open(path, O_RDONLY | O_CLOEXEC);
}

bool proc_read(int fd, char *text, size_t bytes) {
  ssize_t got = fd < 0 ? -1 : pread(fd, text, bytes - 1, 0);
  if (got <= 0)
    return false;
  text[got] = '\0';
  return true;
}

bool proc_read_file(int pid, const char *name, char *text, size_t bytes) {
  int fd = proc_open(pid, name);
  bool got = proc_read(fd, text, bytes);
  if (fd >= 0)
    close(fd);
  return got;
}

uint64_t proc_status_number(const char *text, const char *key, uint64_t missing) {
  const char *line = strstr(text, key);
  return line ? strtoull(line + strlen(key), NULL, 10) : missing;
}

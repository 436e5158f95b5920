/* SPDX-License-Identifier: MIT */
#include "allocators/common/base/environment.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PROC_BYTES_MAX = 16384 };

/* Mapped when needed, which is seldom: in .bss it would separate variables that otherwise share an OS page. */
static char *proc_environment;
static size_t proc_bytes;

/* Returns the value in an entry NAME=VALUE; NULL: another variable's. */
static const char *value_in(const char *entry, const char *name) {
  size_t length = strlen(name);
  return strncmp(entry, name, length) == 0 && entry[length] == '=' ? entry + length + 1 : NULL;
}

static void read_proc(void) {
  int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return;
  void *mapped = mmap(NULL, PROC_BYTES_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped != MAP_FAILED) {
    proc_environment = mapped;
    ssize_t got;
    while (proc_bytes < PROC_BYTES_MAX - 1 &&
           (got = read(fd, proc_environment + proc_bytes, PROC_BYTES_MAX - 1 - proc_bytes)) > 0)
      proc_bytes += (size_t)got;
  }
  close(fd);
}

/* The first call may come from the dynamic linker, before libc has the environment: then reads the kernel's copy. */
static const char *from_proc(const char *name) {
  if (proc_bytes == 0)
    read_proc();
  for (const char *entry = proc_environment; entry < proc_environment + proc_bytes; entry += strlen(entry) + 1) {
    const char *value = value_in(entry, name);
    if (value)
      return value;
  }
  return NULL;
}

const char *environment_value(const char *name) {
  if (getauxval(AT_SECURE))
    return NULL;
  if (!environ)
    return from_proc(name);
  for (char **entry = environ; *entry; entry++) {
    const char *value = value_in(*entry, name);
    if (value)
      return value;
  }
  return NULL;
}

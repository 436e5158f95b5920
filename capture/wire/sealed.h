/* SPDX-License-Identifier: MIT */
/* What a host checks of memory that it is given, before it maps it. */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Is the descriptor memory of exactly that size which nobody can shorten? Else an access could end the process. Changes
   errno. */
static inline bool attach_is_sealed(int fd, uint64_t bytes) {
  struct stat status;
  long seals = syscall(SYS_fcntl, fd, F_GET_SEALS, 0);
  return seals >= 0 && (seals & F_SEAL_SHRINK) && syscall(SYS_fstat, fd, &status) == 0 &&
         (uint64_t)status.st_size == bytes;
}

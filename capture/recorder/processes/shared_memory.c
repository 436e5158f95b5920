/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static void *sealed_mapping(int fd, size_t size_bytes) {
  if (ftruncate(fd, (off_t)size_bytes) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return MAP_FAILED;
  return mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
}

int shared_memory_open(const char *name, size_t size_bytes, void **memory) {
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return -1;
  void *mapped = sealed_mapping(fd, size_bytes);
  if (mapped == MAP_FAILED) {
    int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  *memory = mapped;
  return fd;
}

/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/mapped_file.h"

#include "core/base/os.h"
#include "core/trace/summary.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
  LIBRARY_MOST = 64 << 20, /* of a C library that is searched for its version */
  CHUNK_BYTES = 1 << 16,
  BANNER_MOST = 256,
};

/* Is that the mapped file? Where layers or volumes are one file system, the kernel's list of mappings has the numbers
   of the file below, and those of the path are others. */
static bool is_mapped(int place, const struct stat *status, const struct proc_mapping *mapping) {
  struct statfs system;
  uint64_t device = (uint64_t)major(status->st_dev) << 32 | minor(status->st_dev);
  if (device == mapping->device && status->st_ino == mapping->inode)
    return true;
  return fstatfs(place, &system) == 0 && (system.f_type == OVERLAYFS_SUPER_MAGIC ||
                                          (system.f_type == BTRFS_SUPER_MAGIC && status->st_ino == mapping->inode));
}

/* The process chooses the path, so a device or a pipe there is found without opening it. */
static int open_mapped(const char *path, const struct proc_mapping *mapping) {
  struct stat status;
  char opened[32];
  int place = open(path, O_PATH | O_CLOEXEC), fd = -1;
  snprintf(opened, sizeof opened, "/proc/self/fd/%d", place);
  if (place >= 0 && fstat(place, &status) == 0 && S_ISREG(status.st_mode) && is_mapped(place, &status, mapping))
    fd = open(opened, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  os_close(place);
  return fd;
}

int mapped_file_open(int pid, const struct proc_mapping *mapping) {
  char inside[sizeof mapping->path + 64];
  snprintf(inside, sizeof inside, "/proc/%d/root%s", pid, mapping->path);
  int fd = open_mapped(inside, mapping);
  return fd >= 0 ? fd : open_mapped(mapping->path, mapping);
}

/* glibc prints it if it is run: "GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36." text: of the
   banner's line, from its begin. */
static bool find_version(const char *text, char *version, size_t bytes) {
  static const char WORDS[] = "release version ";
  const char *words = strstr(text, WORDS), *from = words ? words + sizeof WORDS - 1 : "";
  size_t length = strspn(from, "0123456789.");
  while (length > 0 && from[length - 1] == '.')
    length--;
  if (length == 0 || length >= bytes)
    return false;
  memcpy(version, from, length);
  version[length] = '\0';
  return true;
}

bool mapped_file_glibc_version(int fd, char *version, size_t bytes) {
  static const char BANNER[] = "GNU C Library";
  char chunk[CHUNK_BYTES + BANNER_MOST], line[BANNER_MOST + 1];
  version[0] = '\0';
  ssize_t got;
  for (off_t at = 0; at < LIBRARY_MOST && (got = pread(fd, chunk, sizeof chunk, at)) > 0; at += CHUNK_BYTES) {
    const char *banner = memmem(chunk, (size_t)got, BANNER, sizeof BANNER - 1);
    if (!banner)
      continue;
    got = pread(fd, line, BANNER_MOST, at + (banner - chunk));
    line[got > 0 ? got : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return find_version(line, version, bytes);
  }
  return false;
}

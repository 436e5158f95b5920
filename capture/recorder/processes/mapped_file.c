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
  VERSIONS_MOST = 64, /* texts that may be jemalloc's version: a file of nothing else took more than 200 s */
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

/* The place of the text in the file from there on, -1: it is not in it. line: BANNER_MOST + 1 bytes from there. */
static off_t find_text(int fd, off_t from, const char *text, char *line) {
  char chunk[CHUNK_BYTES + BANNER_MOST];
  ssize_t got;
  for (off_t at = from; at < LIBRARY_MOST && (got = pread(fd, chunk, sizeof chunk, at)) > 0; at += CHUNK_BYTES) {
    const char *found = memmem(chunk, (size_t)got, text, strlen(text));
    if (!found)
      continue;
    got = pread(fd, line, BANNER_MOST, at + (found - chunk));
    line[got > 0 ? got : 0] = '\0';
    return at + (found - chunk);
  }
  return -1;
}

bool mapped_file_glibc_version(int fd, char *version, size_t bytes) {
  char line[BANNER_MOST + 1];
  version[0] = '\0';
  if (find_text(fd, 0, "GNU C Library", line) < 0)
    return false;
  line[strcspn(line, "\n")] = '\0';
  return find_version(line, version, bytes);
}

/* jemalloc's is as in "5.3.0-0-g54eaed1d": commits since the release, and the last one; "0.0.0": it was not known. */
static void jemalloc_version(int fd, char *version, size_t bytes) {
  char line[BANNER_MOST + 1], before[16];
  off_t at = 0;
  for (int tried = 0; tried < VERSIONS_MOST && (at = find_text(fd, at, "-0-g", line)) >= 0; tried++, at++) {
    ssize_t got = pread(fd, before, sizeof before, at < (off_t)sizeof before ? 0 : at - (off_t)sizeof before);
    size_t from = got == sizeof before ? sizeof before : 0, length;
    while (from > 0 && strchr("0123456789.", before[from - 1]) && before[from - 1])
      from--;
    length = sizeof before - from;
    if (length < sizeof "0.0.0" - 1 || length >= bytes || strncmp(before + from, "0.0.0", length) == 0)
      continue;
    memcpy(version, before + from, length);
    version[length] = '\0';
    return;
  }
}

const char *mapped_file_linked_allocator(int fd, char *version, size_t bytes) {
  char line[BANNER_MOST + 1];
  version[0] = '\0';
  if (find_text(fd, 0, "<jemalloc>: ", line) >= 0) {
    jemalloc_version(fd, version, bytes);
    return "jemalloc";
  }
  if (find_text(fd, 0, "gperftools ", line) >= 0) {
    snprintf(version, bytes, "%.*s", (int)strspn(line + sizeof "gperftools", "0123456789."),
             line + sizeof "gperftools");
    return "tcmalloc";
  }
  if (find_text(fd, 0, "mimalloc: warning: ", line) >= 0)
    return "mimalloc";
  return find_text(fd, 0, "malloc(): corrupted top size", line) >= 0 ? "glibc" : NULL;
}

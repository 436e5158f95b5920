/* SPDX-License-Identifier: MIT */
#include "core/files/temporary_file.h"

#include "core/base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int temporary_file_open(struct temporary_file *file, struct error *error) {
  const char *directory = getenv("TMPDIR");
  if (!directory || !directory[0])
    directory = P_tmpdir;
  file->fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file->fd < 0) { /* file systems without nameless files */
    char name[4096];
    int length = snprintf(name, sizeof name, "%s/heaptape-XXXXXX", directory);
    file->fd = length < (int)sizeof name ? mkostemp(name, O_CLOEXEC) : -1;
    if (file->fd < 0)
      return error_errno(error, directory, "can't make a temporary file");
    unlink(name);
  }
  snprintf(file->path, sizeof file->path, "/proc/self/fd/%d", file->fd);
  return 0;
}

void temporary_file_close(struct temporary_file *file) {
  if (file->fd >= 0)
    close(file->fd);
  file->fd = -1;
}

int temporary_file_copy(struct temporary_file *file, int fd, const char *name, struct error *error) {
  char bytes[1 << 16];
  uint64_t offset = 0;
  if (temporary_file_open(file, error) != 0)
    return -1;
  for (;;) {
    ssize_t got = TEMP_FAILURE_RETRY(read(fd, bytes, sizeof bytes));
    if (got == 0)
      return 0;
    if (got < 0 || os_pwrite_all(file->fd, bytes, (size_t)got, offset) != 0) {
      error_errno(error, name, got < 0 ? "can't read" : "can't write a temporary copy");
      temporary_file_close(file);
      return -1;
    }
    offset += (uint64_t)got;
  }
}

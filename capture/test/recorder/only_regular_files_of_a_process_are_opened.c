/* SPDX-License-Identifier: MIT */
/* A recorded process names the files that the recorder reads: opening a device or a pipe could have an effect. */
#include "capture/recorder/processes/elf_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int failed;

static void check(const char *path, bool opens) {
  int fd = elf_file_open(getpid(), path);
  if ((fd >= 0) != opens || (fd >= 0 && (fcntl(fd, F_GETFL) & (O_PATH | O_ACCMODE)) != O_RDONLY)) {
    fprintf(stderr, "%s: %s\n", path, fd >= 0 ? "was opened" : "was not opened");
    failed = 1;
  }
  if (fd >= 0)
    close(fd);
}

int main(void) {
  char folder[] = "/tmp/heaptape-test-XXXXXX", path[64], link[64];
  if (!mkdtemp(folder))
    return 1;
  snprintf(path, sizeof path, "%s/pipe", folder);
  snprintf(link, sizeof link, "%s/link", folder);
  if (mkfifo(path, 0600) != 0 || symlink("pipe", link) != 0)
    return 1;
  check(path, false);
  check(link, false);
  check("/dev/null", false);
  check(folder, false);
  check("/nowhere", false);
  unlink(link);
  if (symlink("/proc/self/exe", link) != 0)
    return 1;
  check("/proc/self/exe", true);
  check(link, true);
  unlink(link);
  unlink(path);
  rmdir(folder);
  return failed;
}

/* SPDX-License-Identifier: MIT */
#include "capture/host/process/messages.h"

#include "capture/host/process/host_state.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct stat first_stderr;

void message_note_stderr(void) {
  fstat(2, &first_stderr);
}

void message_print(const char *text) {
  struct stat now;
  if (host_sandboxed() || fstat(2, &now) != 0 || now.st_dev != first_stderr.st_dev || now.st_ino != first_stderr.st_ino)
    return;
  char line[256] = "heaptape: ";
  size_t used = strlen(line), length = strlen(text);
  if (length > sizeof line - used - 1)
    length = sizeof line - used - 1;
  memcpy(line + used, text, length);
  line[used + length] = '\n';
  syscall(SYS_write, 2, line, used + length + 1); /* not write(), which is a cancellation point */
}

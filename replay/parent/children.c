/* SPDX-License-Identifier: MIT */
#include "replay/parent/children.h"

#include "core/base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  ATTEMPTS = 2000,
  BETWEEN_MS = 1,
  BUFFER_BYTES = 16 << 10,
  MOST_LEFT_BYTES = 1 << 20, /* in a pipe: what a process without privileges can make it hold */
};

int engine_output_open(struct engine_output *output) {
  int ends[2];
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || pipe2(ends, O_CLOEXEC) != 0)
    return -1;
  *output = (struct engine_output){.read_end = ends[0], .write_end = ends[1]};
  return fcntl(output->read_end, F_SETFL, O_NONBLOCK);
}

void engine_output_become(const struct engine_output *output, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(1);
  setpgid(0, 0);
  dup2(output->write_end, STDOUT_FILENO);
  dup2(output->write_end, STDERR_FILENO);
}

void engine_output_begin(struct engine_output *output) {
  close(output->write_end);
  output->write_end = -1;
}

static void write_all(const char *bytes, size_t count) {
  ssize_t written = 0;
  for (; count > 0 && (written = write(STDERR_FILENO, bytes, count)) > 0; count -= (size_t)written)
    bytes += written;
}

/* Returns what was read; 0 or less: nothing now. */
static ssize_t pass_on_some(struct engine_output *output) {
  static char buffer[BUFFER_BYTES];
  ssize_t bytes = read(output->read_end, buffer, sizeof buffer);
  if (bytes <= 0)
    return bytes;
  uint64_t room = output->bytes < ENGINE_OUTPUT_BYTES ? ENGINE_OUTPUT_BYTES - output->bytes : 0;
  uint64_t shown = (uint64_t)bytes < room ? (uint64_t)bytes : room;
  output->bytes += (uint64_t)bytes;
  write_all(buffer, shown);
  return bytes;
}

void engine_output_pass_on(struct engine_output *output) {
  if (pass_on_some(output) == 0) {
    close(output->read_end);
    output->read_end = -1;
  }
}

/* The parent of a process; 0: unknown. Its name may contain anything, also ")". */
static pid_t parent_of(const char *pid) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return 0;
  ssize_t bytes = read(fd, text, sizeof text - 1);
  close(fd);
  text[bytes > 0 ? bytes : 0] = '\0';
  char *at = text;
  for (char *next = text; *next; next++)
    at = *next == ')' ? next : at;
  int parent = 0;
  return sscanf(at, ") %*c %d", &parent) == 1 ? parent : 0;
}

/* A child that dies leaves its own children to us: call it until there are none. */
static void kill_children(void) {
  DIR *folder = opendir("/proc");
  const struct dirent *entry;
  while (folder && (entry = readdir(folder)) != NULL)
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && parent_of(entry->d_name) == getpid())
      kill(atoi(entry->d_name), SIGKILL);
  if (folder)
    closedir(folder);
}

void engine_output_finish(struct engine_output *output) {
  for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
    pid_t ended;
    while ((ended = waitpid(-1, NULL, WNOHANG)) > 0)
      ;
    if (ended < 0 && errno == ECHILD)
      break;
    kill_children();
    poll(NULL, 0, BETWEEN_MS);
  }
  for (int left = MOST_LEFT_BYTES / BUFFER_BYTES; output->read_end >= 0 && left > 0 && pass_on_some(output) > 0; left--)
    ;
  os_close(output->read_end);
  if (output->bytes > ENGINE_OUTPUT_BYTES)
    fprintf(stderr, "\nheaptape-replay: %" PRIu64 " bytes more of the allocator's output left out\n",
            output->bytes - ENGINE_OUTPUT_BYTES);
}

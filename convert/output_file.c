#include "convert/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void forget(struct output_file *file) {
  if (!file->direct)
    free(file->temporary);
  free(file->path);
  *file = (struct output_file){0};
}

int output_file_begin(struct output_file *file, const char *path, struct trace_error *error) {
  struct stat status;
  *file = (struct output_file){.path = strdup(path)};
  if (!file->path)
    return trace_error_set(error, path, "out of memory");
  file->direct = stat(path, &status) == 0 && !S_ISREG(status.st_mode);
  if (file->direct) {
    file->temporary = file->path;
    return 0;
  }
  size_t room = strlen(path) + 40;
  file->temporary = malloc(room);
  if (!file->temporary) {
    forget(file);
    return trace_error_set(error, path, "out of memory");
  }
  snprintf(file->temporary, room, "%s.%ld.partial", path, (long)getpid());
  int fd = open(file->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) {
    trace_error_errno(error, path, "can't create");
    forget(file);
    return -1;
  }
  close(fd);
  return 0;
}

int output_file_commit(struct output_file *file, struct trace_error *error) {
  int result = 0;
  if (!file->direct && rename(file->temporary, file->path) != 0) {
    result = trace_error_errno(error, file->path, "can't rename the finished file to its name");
    unlink(file->temporary);
  }
  forget(file);
  return result;
}

void output_file_abort(struct output_file *file) {
  if (file->path && !file->direct)
    unlink(file->temporary);
  forget(file);
}

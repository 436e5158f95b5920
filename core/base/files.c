/* SPDX-License-Identifier: MIT */
#include "core/base/files.h"

#include "core/base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* For the signal handler. */
static char interrupted_path[4096];

static void on_signal(int number) {
  if (interrupted_path[0])
    unlink(interrupted_path);
  signal(number, SIG_DFL);
  raise(number);
}

static void remove_when_interrupted(const char *path) {
  interrupted_path[0] = '\0';
  if (path && strlen(path) < sizeof interrupted_path)
    strcpy(interrupted_path, path);
}

static void forget(struct output_file *file) {
  if (!file->direct)
    free(file->temporary);
  free(file->path);
  *file = (struct output_file){0};
}

int output_file_begin(struct output_file *file, const char *path, struct error *error) {
  struct stat status;
  *file = (struct output_file){.path = strdup(path)};
  if (!file->path)
    return error_set(error, path, "out of memory");
  file->direct = stat(path, &status) == 0 && !S_ISREG(status.st_mode);
  if (file->direct) {
    file->temporary = file->path;
    return 0;
  }
  size_t room = strlen(path) + 40;
  file->temporary = malloc(room);
  if (!file->temporary) {
    forget(file);
    return error_set(error, path, "out of memory");
  }
  snprintf(file->temporary, room, "%s.%ld.partial", path, (long)getpid());
  remove_when_interrupted(file->temporary); /* before the file exists: a signal may come right after open */
  int fd = open(file->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) {
    error_errno(error, path, "can't create");
    remove_when_interrupted(NULL);
    forget(file);
    return -1;
  }
  close(fd);
  return 0;
}

static int commit(struct output_file *file, struct error *error) {
  if (file->direct || rename(file->temporary, file->path) == 0)
    return 0;
  error_errno(error, file->path, "can't rename the finished file to its name");
  unlink(file->temporary);
  return -1;
}

/* The writer's error has only the temporary name. */
static void give_up(const struct output_file *file, struct error *error) {
  char shown[sizeof error->text];
  size_t path_bytes = strlen(escape_controls(shown, sizeof shown, file->path));
  size_t temporary_bytes = strlen(escape_controls(shown, sizeof shown, file->temporary));
  unlink(file->temporary);
  if (strncmp(error->text, shown, temporary_bytes) == 0)
    memmove(error->text + path_bytes, error->text + temporary_bytes, strlen(error->text + temporary_bytes) + 1);
}

int output_file_end(struct output_file *file, int result, struct error *error) {
  if (result == 0)
    result = commit(file, error);
  else if (!file->direct)
    give_up(file, error);
  remove_when_interrupted(NULL);
  forget(file);
  return result;
}

int output_stream_begin(struct output_stream *stream, struct output_file *file, const char *path, struct error *error) {
  *stream = (struct output_stream){stdout, "standard output"};
  if (strcmp(path, "-") == 0)
    return 0;
  if (output_file_begin(file, path, error) != 0)
    return -1;
  *stream = (struct output_stream){fopen(file->temporary, "we"), path};
  return stream->file ? 0 : output_file_end(file, error_errno(error, path, "can't create"), error);
}

int output_stream_end(const struct output_stream *stream, struct output_file *file, int result, struct error *error) {
  if (stream->file == stdout)
    return result;
  if (fclose(stream->file) != 0 && result == 0)
    result = error_errno(error, stream->name, "can't write");
  return output_file_end(file, result, error);
}

void output_file_guard(void) {
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  signal(SIGHUP, on_signal);
}

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
  os_close(file->fd);
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

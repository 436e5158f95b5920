/* SPDX-License-Identifier: MIT */
#include "core/files/output_file.h"

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
  size_t temporary_bytes = strlen(file->temporary), path_bytes = strlen(file->path);
  unlink(file->temporary);
  if (strncmp(error->text, file->temporary, temporary_bytes) == 0)
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

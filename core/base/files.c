/* SPDX-License-Identifier: MIT */
#include "core/base/files.h"

#include "core/base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
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

/* The target of the link that is open as fd, seen from the link's folder. Returns 0, or -1 with errno set. */
static int follow(int fd, char *path, size_t room) {
  char target[PATH_MAX];
  ssize_t length = readlinkat(fd, "", target, sizeof target);
  if (length < 0)
    return -1;
  char *slash = target[0] == '/' ? NULL : strrchr(path, '/');
  size_t folder = slash ? (size_t)(slash + 1 - path) : 0;
  if (folder + (size_t)length >= room) {
    errno = ENAMETOOLONG;
    return -1;
  }
  memcpy(path + folder, target, (size_t)length);
  path[folder + (size_t)length] = '\0';
  return 0;
}

/* 1: path was a link, and is now its target; 2: a link of the kernel's, which leads to an open file; -1 with errno
   set. */
static int pass_link(char *path, size_t room) {
  struct stat status;
  struct statfs system;
  int result = -1, fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &status) != 0 || fstatfs(fd, &system) != 0)
    ;
  else if (!S_ISLNK(status.st_mode))
    errno = ELOOP; /* in its folders */
  else if (status.st_uid != geteuid() && status.st_uid != 0)
    errno = EACCES;
  else if (system.f_type == PROC_SUPER_MAGIC)
    result = 2;
  else
    result = follow(fd, path, room) == 0 ? 1 : -1;
  int error = errno;
  os_close(fd);
  errno = error;
  return result;
}

int output_open(const char *path, int flags) {
  enum { LINKS_MOST = 40 };
  char at[PATH_MAX];
  if ((size_t)snprintf(at, sizeof at, "%s", path) >= sizeof at) {
    errno = ENAMETOOLONG;
    return -1;
  }
  for (int links = 0; links < LINKS_MOST; links++) {
    struct stat status;
    if (lstat(at, &status) == 0 && S_ISFIFO(status.st_mode) && status.st_uid != geteuid() && status.st_uid != 0) {
      errno = EACCES; /* it could keep us waiting, and read what we write */
      return -1;
    }
    int fd = open(at, flags | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != ELOOP)
      return fd;
    int passed = pass_link(at, sizeof at);
    if (passed != 1)
      return passed < 0 ? -1 : open(at, flags | O_CREAT | O_CLOEXEC, 0666);
  }
  errno = ELOOP;
  return -1;
}

static void forget(struct output_file *file) {
  os_close(file->fd);
  free(file->partial);
  free(file->path);
  *file = (struct output_file){.fd = -1};
}

static int fail(struct output_file *file, const char *path, struct error *error) {
  error_errno(error, path, "can't create");
  remove_when_interrupted(NULL);
  forget(file);
  return -1;
}

/* Creates the file under a random name. Returns its descriptor, or -1 with errno set. */
static int create_partial(struct output_file *file) {
  uint64_t number;
  size_t room = strlen(file->path) + 40;
  file->partial = malloc(room);
  if (!file->partial || getrandom(&number, sizeof number, 0) != sizeof number)
    return -1;
  snprintf(file->partial, room, "%s.%016llx.partial", file->path, (unsigned long long)number);
  remove_when_interrupted(file->partial); /* before the file exists: a signal may come right after open */
  return open(file->partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

int output_file_begin(struct output_file *file, const char *path, struct error *error) {
  struct stat status;
  *file = (struct output_file){.path = strdup(path), .fd = -1};
  if (!file->path)
    return fail(file, path, error);
  bool direct = stat(path, &status) == 0 && !S_ISREG(status.st_mode);
  file->fd = direct ? output_open(path, O_WRONLY) : create_partial(file);
  if (file->fd < 0)
    return fail(file, path, error);
  snprintf(file->opened, sizeof file->opened, "/proc/self/fd/%d", file->fd);
  return 0;
}

static int commit(struct output_file *file, struct error *error) {
  if (!file->partial || rename(file->partial, file->path) == 0)
    return 0;
  error_errno(error, file->path, "can't rename the finished file to its name");
  unlink(file->partial);
  return -1;
}

static void give_up(const struct output_file *file, struct error *error) {
  if (file->partial)
    unlink(file->partial);
  size_t opened_bytes = strlen(file->opened);
  if (strncmp(error->text, file->opened, opened_bytes) != 0)
    return;
  char after[sizeof error->text], shown[sizeof error->text];
  snprintf(after, sizeof after, "%s", error->text + opened_bytes);
  snprintf(error->text, sizeof error->text, "%s%s", escape_controls(shown, sizeof shown, file->path), after);
}

int output_file_end(struct output_file *file, int result, struct error *error) {
  if (result == 0)
    result = commit(file, error);
  else
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
  *stream = (struct output_stream){fopen(file->opened, "we"), path};
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

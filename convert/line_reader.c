#include "convert/line_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zip.h>

struct line_reader {
  char *path;
  struct trace_error *error;
  int fd; /* -1 where a zip is read */
  zip_t *zip;
  zip_file_t *entry;
  uint64_t line;
  size_t at, used; /* unread part of bytes */
  char bytes[1 << 16];
  char text[LINE_MAX_BYTES + 1];
};

/* Opens the archive's one file; several would have no order. */
static int open_zip(struct line_reader *reader) {
  zip_error_t wrong;
  zip_error_init(&wrong);
  int fd = dup(reader->fd);
  FILE *file = fd < 0 ? NULL : fdopen(fd, "rb");
  zip_source_t *source = file ? zip_source_filep_create(file, 0, -1, &wrong) : NULL;
  reader->zip = source ? zip_open_from_source(source, ZIP_RDONLY, &wrong) : NULL;
  if (!reader->zip) {
    trace_error_set(reader->error, reader->path, "can't open as a zip: %s", zip_error_strerror(&wrong));
    zip_source_free(source);
    zip_error_fini(&wrong);
    return -1;
  }
  zip_int64_t entries = zip_get_num_entries(reader->zip, 0);
  if (entries != 1)
    return trace_error_set(reader->error, reader->path, "the zip holds %" PRId64 " files, not one", (int64_t)entries);
  reader->entry = zip_fopen_index(reader->zip, 0, 0);
  if (!reader->entry)
    return trace_error_set(reader->error, reader->path, "can't open the file in the zip: %s",
                           zip_strerror(reader->zip));
  return 0;
}

int line_reader_open(struct line_reader **out, const char *path, struct trace_error *error) {
  *out = NULL;
  struct line_reader *reader = calloc(1, sizeof *reader);
  if (!reader || !(reader->path = strdup(path))) {
    free(reader);
    return trace_error_set(error, path, "out of memory");
  }
  reader->error = error;
  reader->fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
  char magic[4];
  int result = reader->fd < 0 ? trace_error_errno(error, path, "can't open") : 0;
  if (result == 0) {
    lseek(reader->fd, 0, SEEK_SET); /* a pipe has no other place to read from than where it is */
    if (pread(reader->fd, magic, sizeof magic, 0) == sizeof magic && memcmp(magic, "PK\3\4", sizeof magic) == 0)
      result = open_zip(reader);
  }
  if (result != 0) {
    line_reader_close(reader);
    return -1;
  }
  *out = reader;
  return 0;
}

void line_reader_close(struct line_reader *reader) {
  if (!reader)
    return;
  if (reader->entry)
    zip_fclose(reader->entry);
  if (reader->zip)
    zip_discard(reader->zip);
  if (reader->fd >= 0)
    close(reader->fd);
  free(reader->path);
  free(reader);
}

uint64_t line_reader_number(const struct line_reader *reader) {
  return reader->line;
}

int line_reader_error(struct line_reader *reader, const char *format, ...) {
  char message[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  for (char *c = message; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 0x7f) /* the message may quote the input */
      *c = '?';
  if (!reader->error->text[0])
    snprintf(reader->error->text, sizeof reader->error->text, "%s:%" PRIu64 ": %s", reader->path, reader->line,
             message);
  return -1;
}

/* 1, 0 at the end, -1. */
static int refill(struct line_reader *reader) {
  ssize_t got;
  do {
    got = reader->entry ? (ssize_t)zip_fread(reader->entry, reader->bytes, sizeof reader->bytes)
                        : read(reader->fd, reader->bytes, sizeof reader->bytes);
  } while (got < 0 && !reader->entry && errno == EINTR);
  if (got < 0 && reader->entry)
    return trace_error_set(reader->error, reader->path, "can't read the file in the zip: %s",
                           zip_file_strerror(reader->entry));
  if (got < 0)
    return trace_error_errno(reader->error, reader->path, "can't read");
  reader->at = 0;
  reader->used = (size_t)got;
  return got > 0;
}

int line_reader_next(struct line_reader *reader, const char **line) {
  size_t length = 0;
  bool any = false;
  reader->line++;
  for (;;) {
    if (reader->at == reader->used) {
      int got = refill(reader);
      if (got < 0)
        return -1;
      if (got == 0)
        break;
    }
    any = true;
    const char *from = reader->bytes + reader->at;
    size_t left = reader->used - reader->at;
    const char *end = memchr(from, '\n', left);
    size_t part = end ? (size_t)(end - from) : left;
    if (part > LINE_MAX_BYTES - length)
      return line_reader_error(reader, "line is longer than %d bytes", LINE_MAX_BYTES);
    memcpy(reader->text + length, from, part);
    length += part;
    reader->at += part + (end != NULL);
    if (end)
      break;
  }
  if (!any)
    return 0;
  if (memchr(reader->text, '\0', length))
    return line_reader_error(reader, "not text: it holds a NUL byte");
  if (length && reader->text[length - 1] == '\r')
    length--;
  reader->text[length] = '\0';
  *line = reader->text;
  return 1;
}

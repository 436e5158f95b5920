/* SPDX-License-Identifier: MIT */
#include "convert/formats/reading/line_reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct line_reader {
  struct byte_source *source;
  uint64_t line;
  size_t at, used; /* unread part of bytes */
  char bytes[1 << 16];
  char text[LINE_MAX_BYTES + 1];
};

int line_reader_of_source(struct line_reader **out, struct byte_source *source) {
  *out = calloc(1, sizeof **out);
  if (!*out) {
    error_set(byte_source_error(source), byte_source_path(source), "out of memory");
    byte_source_close(source);
    return -1;
  }
  (*out)->source = source;
  return 0;
}

int line_reader_open(struct line_reader **out, const char *path, struct error *error) {
  struct byte_source *source;
  *out = NULL;
  return byte_source_open(&source, path, error) == 0 ? line_reader_of_source(out, source) : -1;
}

void line_reader_close(struct line_reader *reader) {
  if (!reader)
    return;
  byte_source_close(reader->source);
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
  struct error *error = byte_source_error(reader->source);
  if (!error->text[0])
    snprintf(error->text, sizeof error->text, "%s:%" PRIu64 ": %s", byte_source_path(reader->source), reader->line,
             message);
  return -1;
}

/* Returns 1, 0 at the end, -1. */
static int refill(struct line_reader *reader) {
  int64_t got = byte_source_read(reader->source, reader->bytes, sizeof reader->bytes);
  if (got < 0)
    return -1;
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

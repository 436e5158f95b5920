/* SPDX-License-Identifier: MIT */
#include "convert/foreign/reading.h"

#include "core/base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>
#include <zlib.h>
#include <zstd.h>

const uint8_t hex_digits[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

enum { PACKED_BYTES = 1 << 16, WINDOW_LOG_LIMIT = 27 };

struct byte_source {
  char *path;
  struct error *error;
  int fd;
  int64_t (*read)(struct byte_source *source, void *bytes, size_t room);
  zip_t *zip;
  zip_file_t *entry;
  gzFile gzip;
  ZSTD_DStream *zstd;
  ZSTD_inBuffer packed;
  bool inside_frame; /* of zstd */
  char packed_bytes[PACKED_BYTES];
};

static int64_t read_plain(struct byte_source *source, void *bytes, size_t room) {
  ssize_t got = TEMP_FAILURE_RETRY(read(source->fd, bytes, room));
  return got < 0 ? error_errno(source->error, source->path, "can't read") : got;
}

static int64_t read_zip(struct byte_source *source, void *bytes, size_t room) {
  zip_int64_t got = zip_fread(source->entry, bytes, room);
  if (got < 0)
    return error_set(source->error, source->path, "can't read the file in the zip: %s",
                     zip_file_strerror(source->entry));
  return got;
}

static int64_t read_gzip(struct byte_source *source, void *bytes, size_t room) {
  int got = gzread(source->gzip, bytes, room > 1 << 30 ? 1 << 30 : (unsigned)room);
  int wrong = Z_OK;
  const char *text = gzerror(source->gzip, &wrong);
  if (got < 0 || (got == 0 && wrong != Z_OK && wrong != Z_STREAM_END))
    return error_set(source->error, source->path, "can't unpack as gzip: %s",
                     wrong == Z_BUF_ERROR ? "the file is cut off" : text);
  return got;
}

static int64_t read_zstd(struct byte_source *source, void *bytes, size_t room) {
  ZSTD_outBuffer out = {bytes, room, 0};
  while (out.pos == 0) {
    if (source->packed.pos == source->packed.size) {
      int64_t got = read_plain(source, source->packed_bytes, sizeof source->packed_bytes);
      if (got < 0)
        return -1;
      if (got == 0)
        return source->inside_frame
                   ? error_set(source->error, source->path, "can't unpack as zstd: the file is cut off")
                   : 0;
      source->packed = (ZSTD_inBuffer){source->packed_bytes, (size_t)got, 0};
    }
    size_t left = ZSTD_decompressStream(source->zstd, &out, &source->packed);
    if (ZSTD_isError(left))
      return error_set(source->error, source->path, "can't unpack as zstd: %s", ZSTD_getErrorName(left));
    source->inside_frame = left != 0;
  }
  return (int64_t)out.pos;
}

/* Opens the archive's only file; several files would have no order. */
static int open_zip(struct byte_source *source) {
  zip_error_t wrong;
  zip_error_init(&wrong);
  int fd = dup(source->fd);
  FILE *file = fd < 0 ? NULL : fdopen(fd, "rb");
  zip_source_t *archive = file ? zip_source_filep_create(file, 0, -1, &wrong) : NULL;
  source->zip = archive ? zip_open_from_source(archive, ZIP_RDONLY, &wrong) : NULL;
  if (!source->zip) {
    /* The list of an archive's files is at its end. */
    bool cut = zip_error_code_zip(&wrong) == ZIP_ER_NOZIP || zip_error_code_zip(&wrong) == ZIP_ER_INCONS;
    error_set(source->error, source->path, "can't open as a zip: %s%s", cut ? "the file is cut off: " : "",
              zip_error_strerror(&wrong));
    if (archive)
      zip_source_free(archive);
    else if (file)
      fclose(file);
    zip_error_fini(&wrong);
    return -1;
  }
  zip_int64_t entries = zip_get_num_entries(source->zip, 0);
  if (entries != 1)
    return error_set(source->error, source->path, "the zip holds %" PRId64 " files, not one", (int64_t)entries);
  source->entry = zip_fopen_index(source->zip, 0, 0);
  if (!source->entry)
    return error_set(source->error, source->path, "can't open the file in the zip: %s", zip_strerror(source->zip));
  source->read = read_zip;
  return 0;
}

static int open_gzip(struct byte_source *source) {
  int fd = dup(source->fd);
  source->gzip = fd < 0 ? NULL : gzdopen(fd, "rb");
  if (!source->gzip) {
    os_close(fd);
    return error_set(source->error, source->path, "out of memory");
  }
  gzbuffer(source->gzip, PACKED_BYTES);
  source->read = read_gzip;
  return 0;
}

static int open_zstd(struct byte_source *source) {
  source->zstd = ZSTD_createDStream();
  if (!source->zstd || ZSTD_isError(ZSTD_DCtx_setParameter(source->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_LIMIT)))
    return error_set(source->error, source->path, "out of memory");
  source->read = read_zstd;
  return 0;
}

static int open_by_magic(struct byte_source *source) {
  unsigned char magic[4];
  if (pread(source->fd, magic, sizeof magic, 0) != sizeof magic)
    return 0;
  if (memcmp(magic, "PK\3\4", 4) == 0)
    return open_zip(source);
  if (magic[0] == 0x1f && magic[1] == 0x8b)
    return open_gzip(source);
  if (memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0)
    return open_zstd(source);
  return 0;
}

int byte_source_of_fd(struct byte_source **out, int fd, const char *path, struct error *error) {
  *out = NULL;
  struct byte_source *source = calloc(1, sizeof *source);
  if (!source || !(source->path = strdup(path))) {
    free(source);
    os_close(fd);
    return error_set(error, path, "out of memory");
  }
  source->error = error;
  source->fd = fd;
  source->read = read_plain;
  *out = source;
  return 0;
}

int byte_source_open(struct byte_source **out, const char *path, struct error *error) {
  *out = NULL;
  int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return error_errno(error, path, "can't open");
  lseek(fd, 0, SEEK_SET); /* a pipe can only be read from its current position */
  struct byte_source *source;
  if (byte_source_of_fd(&source, fd, path, error) != 0)
    return -1;
  if (open_by_magic(source) != 0) {
    byte_source_close(source);
    return -1;
  }
  *out = source;
  return 0;
}

void byte_source_close(struct byte_source *source) {
  if (!source)
    return;
  if (source->entry)
    zip_fclose(source->entry);
  if (source->zip)
    zip_discard(source->zip);
  if (source->gzip)
    gzclose(source->gzip);
  ZSTD_freeDStream(source->zstd);
  os_close(source->fd);
  free(source->path);
  free(source);
}

int64_t byte_source_read(struct byte_source *source, void *bytes, size_t room) {
  return source->read(source, bytes, room);
}

struct line_reader {
  struct byte_source *source;
  uint64_t line;
  bool failed;     /* no more bytes */
  size_t at, used; /* unread part of bytes */
  char bytes[1 << 16];
  char text[LINE_MAX_BYTES + 1];
};

int line_reader_of_source(struct line_reader **out, struct byte_source *source) {
  *out = calloc(1, sizeof **out);
  if (!*out) {
    error_set(source->error, source->path, "out of memory");
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

bool line_reader_failed_to_read(const struct line_reader *reader) {
  return reader->failed;
}

uint64_t line_reader_number(const struct line_reader *reader) {
  return reader->line;
}

int line_reader_error(struct line_reader *reader, const char *format, ...) {
  char message[256], place[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  snprintf(place, sizeof place, "%s:%" PRIu64, reader->source->path, reader->line);
  return error_set(reader->source->error, place, "%s", message);
}

/* Returns 1, 0 at the end, -1. */
static int refill(struct line_reader *reader) {
  int64_t got = byte_source_read(reader->source, reader->bytes, sizeof reader->bytes);
  reader->failed = got < 0;
  if (got < 0)
    return -1;
  bool marked = reader->line == 1 && got >= 3 && memcmp(reader->bytes, "\xef\xbb\xbf", 3) == 0;
  reader->at = marked ? 3 : 0; /* a byte-order mark of UTF-8 */
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

/* SPDX-License-Identifier: MIT */
#include "convert/formats/formats.h"

#include "convert/formats/reading.h"
#include "convert/history/trace_info.h"
#include "core/base/files.h"
#include "core/base/vector.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

REGISTER_FORMAT_AS(tape, .name = "tape", .description = "heaptape trace (core/trace/FORMAT.md)", .suffix = ".tape");
REGISTER_FORMAT_AS(work, .name = "work", .description = "heaptape workload (core/workload/WORKLOAD.md)",
                   .suffix = ".work");
REGISTER_FORMAT_AS(csv, .name = "csv", .description = "comma-separated values, as dump --format csv", .suffix = ".csv");
REGISTER_FORMAT_AS(jsonl, .name = "jsonl", .description = "one JSON object per line, as dump --format jsonl",
                   .suffix = ".jsonl");

const struct format *format_by_name(const char *name) {
  FOR_EACH_FORMAT(entry)
  if (strcmp((*entry)->name, name) == 0)
    return *entry;
  return NULL;
}

const struct format *format_by_suffix(const char *path) {
  FOR_EACH_FORMAT(entry) {
    size_t length = strlen(path), suffix = (*entry)->suffix ? strlen((*entry)->suffix) : 0;
    if (suffix && length > suffix && strcmp(path + length - suffix, (*entry)->suffix) == 0)
      return *entry;
  }
  return NULL;
}

/* If standard input can't be read twice, replaces it with an unlinked file of its content. */
static int spool_standard_input(struct error *error) {
  struct stat status;
  if (fstat(STDIN_FILENO, &status) != 0)
    return error_errno(error, "-", "can't read");
  if (S_ISREG(status.st_mode))
    return lseek(STDIN_FILENO, 0, SEEK_SET) == 0 ? 0 : error_errno(error, "-", "can't read");
  struct temporary_file copy;
  if (temporary_file_copy(&copy, STDIN_FILENO, "-", error) != 0)
    return -1;
  int result = dup2(copy.fd, STDIN_FILENO) < 0 ? error_errno(error, "-", "can't read") : 0;
  temporary_file_close(&copy);
  lseek(STDIN_FILENO, 0, SEEK_SET);
  return result;
}

/* The first line that a format recognises decides; no two recognise one line. Tools print greetings before their
 * records. */
enum { DETECTION_LINES = 200 };

static const struct format *by_lines(struct line_reader *lines) {
  const char *line;
  for (int i = 0; i < DETECTION_LINES && line_reader_next(lines, &line) > 0; i++)
    FOR_EACH_FORMAT(entry) {
      const struct import_format *import = (*entry)->import;
      if (import && import->recognises_line && import->recognises_line(line))
        return *entry;
    }
  return NULL;
}

static const struct format *by_bytes(const struct import_sample *start) {
  FOR_EACH_FORMAT(entry) {
    const struct import_format *import = (*entry)->import;
    if (import && import->recognises_bytes && import->recognises_bytes(start))
      return *entry;
  }
  return NULL;
}

/* Returns how many of the first bytes there are; -1 with error: the file can't be unpacked. */
static int64_t read_start(const char *path, unsigned char *bytes, size_t room, struct error *error) {
  struct byte_source *source;
  size_t count = 0;
  int64_t got = 1;
  if (byte_source_open(&source, path, error) != 0)
    return -1;
  while (count < room && (got = byte_source_read(source, bytes + count, room - count)) > 0)
    count += (size_t)got;
  byte_source_close(source);
  return count || got == 0 ? (int64_t)count : -1;
}

/* NULL without error: no format. */
static const struct format *detect_by_lines(const char *path, struct error *error) {
  struct line_reader *lines;
  if (line_reader_open(&lines, path, error) != 0)
    return NULL;
  const struct format *format = by_lines(lines);
  if (format || !line_reader_failed_to_read(lines))
    error->text[0] = '\0'; /* of a line that is no text; but that the rest can't be unpacked is the reason */
  line_reader_close(lines);
  return format;
}

static const struct format *detect_import(const char *path, uint64_t file_bytes, struct error *error) {
  unsigned char bytes[4096];
  struct error whole = {0}; /* where there are bytes, they are looked at first */
  int64_t count = read_start(path, bytes, sizeof bytes, &whole);
  if (count < 0) {
    *error = whole;
    return NULL;
  }
  size_t mark = count >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* of UTF-8 */
  const struct import_sample start = {bytes + mark, (size_t)count - mark, file_bytes};
  const struct format *format = by_bytes(&start);
  const char *unreadable = format ? NULL : unreadable_file(&start);
  if (unreadable)
    error_set(error, path, "%s", unreadable);
  else if (!format && !(format = detect_by_lines(path, error)) && !error->text[0])
    error_set(error, path, "not a heaptape trace or workload, nor any format that convert --list shows");
  return format;
}

const struct format *format_detect(const char *path, struct error *error) {
  bool standard_input = strcmp(path, "-") == 0;
  if (standard_input && spool_standard_input(error) != 0)
    return NULL;
  int fd = standard_input ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
  struct stat status;
  char magic[8] = "";
  if (fd < 0 || fstat(fd, &status) != 0) {
    error_errno(error, path, "can't open");
    return NULL;
  }
  bool regular = S_ISREG(status.st_mode);
  ssize_t got = regular ? pread(fd, magic, sizeof magic, 0) : 0;
  close(fd);
  if (S_ISDIR(status.st_mode) && import_lttng_is_trace(path))
    return format_by_name("lttng");
  if (!regular) {
    error_set(error, path, "not a regular file");
    return NULL;
  }
  if (got == sizeof magic && memcmp(magic, "HEAPTAPE", sizeof magic) == 0)
    return format_by_name("tape");
  if (got == sizeof magic && memcmp(magic, "HEAPWORK", sizeof magic) == 0)
    return format_by_name("work");
  return detect_import(path, (uint64_t)status.st_size, error);
}

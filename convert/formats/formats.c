/* SPDX-License-Identifier: MIT */
#include "convert/formats/formats.h"

#include "convert/formats/reading.h"
#include "core/base/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

const struct format formats[] = {
    {"tape", "heaptape trace (core/trace/FORMAT.md)", ".tape", NULL, NULL},
    {"work", "heaptape workload (core/workload/WORKLOAD.md)", ".work", NULL, NULL},
    {"text", "heaptape text, as dump prints it (convert/formats/text.c)", ".txt", &import_format_text, NULL},
    {"csv", "comma-separated values, as dump --format csv", ".csv", NULL, NULL},
    {"jsonl", "one JSON object per line, as dump --format jsonl", ".jsonl", NULL, NULL},
    {"android", "Android memory_replay text, plain or in a zip (convert/formats/android.c)", ".android",
     &import_format_android, &export_format_android},
    {"heaptrack", "heaptrack's raw data, plain or packed (convert/formats/heaptrack.c)", NULL, &import_format_heaptrack,
     NULL},
    {"lttng", "LTTng-UST's libc events, a CTF directory or babeltrace2's text (convert/formats/lttng.c)", NULL,
     &import_format_lttng, NULL},
    {"dj", "dj/malloc's binary trace of 64-byte records (convert/formats/dj.c)", NULL, &import_format_dj, NULL},
    {"wl", "dj/malloc's workload, .wl (convert/formats/wl.c)", ".wl", &import_format_wl, &export_format_wl},
    {"rep", "CS:APP malloc lab's .rep (convert/formats/rep.c)", ".rep", &import_format_rep, &export_format_rep},
    {"mtrace", "glibc mtrace(3) text (convert/formats/mtrace.c)", ".mtrace", &import_format_mtrace,
     &export_format_mtrace},
    {"kdump", "FreeBSD kdump of jemalloc's utrace records (convert/formats/kdump.c)", NULL, &import_format_kdump, NULL},
    {"bytehound", "what bytehound export-replay writes (convert/formats/bytehound.c)", NULL, &import_format_bytehound,
     NULL},
    {"valgrind", "what valgrind --trace-malloc=yes prints (convert/formats/valgrind.c)", NULL, &import_format_valgrind,
     NULL},
    {"memray", "what memray parse prints (convert/formats/memray.c)", NULL, &import_format_memray, NULL},
    {"ltrace", "ltrace's text (convert/formats/ltrace.c)", NULL, &import_format_ltrace, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

const struct format *format_by_name(const char *name) {
  for (const struct format *format = formats; format->name; format++)
    if (strcmp(format->name, name) == 0)
      return format;
  return NULL;
}

const struct format *format_by_suffix(const char *path) {
  for (const struct format *format = formats; format->name; format++) {
    size_t length = strlen(path), suffix = format->suffix ? strlen(format->suffix) : 0;
    if (suffix && length > suffix && strcmp(path + length - suffix, format->suffix) == 0)
      return format;
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

/* The first line that any format recognises decides. Tools print greetings before their records. */
enum { LINES_LOOKED_AT = 200 };

static const struct format *by_lines(struct line_reader *lines) {
  const char *line;
  for (int i = 0; i < LINES_LOOKED_AT && line_reader_next(lines, &line) > 0; i++)
    for (const struct format *format = formats; format->name; format++)
      if (format->import && format->import->recognises_line && format->import->recognises_line(line))
        return format;
  return NULL;
}

/* Recognises the file by its first bytes, after unpacking. */
static const struct format *by_bytes(const char *path, uint64_t file_bytes) {
  struct error ignored = {""};
  struct byte_source *source;
  unsigned char bytes[4096];
  size_t count = 0;
  int64_t got;
  if (byte_source_open(&source, path, &ignored) != 0)
    return NULL;
  while (count < sizeof bytes && (got = byte_source_read(source, bytes + count, sizeof bytes - count)) > 0)
    count += (size_t)got;
  byte_source_close(source);
  const struct import_sample start = {bytes, count, file_bytes};
  for (const struct format *format = formats; format->name; format++)
    if (format->import && format->import->recognises_bytes && format->import->recognises_bytes(&start))
      return format;
  return NULL;
}

static const struct format *detect_import(const char *path, uint64_t file_bytes, struct error *error) {
  struct line_reader *lines;
  const struct format *format = by_bytes(path, file_bytes);
  if (format)
    return format;
  if (line_reader_open(&lines, path, error) != 0)
    return NULL;
  format = by_lines(lines);
  line_reader_close(lines);
  if (!format) {
    error->text[0] = '\0';
    error_set(error, path, "not a heaptape trace or workload, nor any format that convert --list shows");
  }
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

/* SPDX-License-Identifier: MIT */
#include "convert/foreign/format.h"

#include "convert/foreign/reading.h"
#include "core/base/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static const struct format *by_folder(const char *path) {
  FOR_EACH_FORMAT(entry)
    if ((*entry)->import && (*entry)->import->recognises_folder && (*entry)->import->recognises_folder(path))
      return *entry;
  return NULL;
}

/* Files that are taken for recordings but can't be read as such: summaries, which have sums and not calls, and
   containers that byte_source does not unpack. They are refused by name, with what to do instead. */
#define NOT_CALLS ", not calls: record the program again, with heaptape record"

static const struct {
  size_t offset; /* where the bytes are; ANYWHERE: in the first line */
  const char *bytes;
  size_t count;
  const char *what;
} signatures[] = {
#define ANYWHERE SIZE_MAX
#define AT(offset, bytes, what)                                                                                        \
  { offset, bytes, sizeof bytes - 1, what }
    AT(0,
       "\xfd"
       "7zXZ",
       "packed by xz, which is not read: unpack it first (xz -dk)"),
    AT(0, "BZh", "packed by bzip2, which is not read: unpack it first (bzip2 -dk)"),
    AT(0, "\x04\x22\x4d\x18", "packed by lz4, which is not read: unpack it first (lz4 -dk)"),
    AT(0, "7z\xbc\xaf\x27\x1c", "a 7z archive, which is not read: unpack it first (7z x)"),
    AT(0, "\x1f\x9d", "packed by compress, which is not read: unpack it first (uncompress -k)"),
    AT(257, "ustar", "a tar archive: unpack it (tar -xf) and name one of its files"),
    AT(0, "\xff\xfe", "text in UTF-16: convert it first (iconv -f UTF-16 -t UTF-8)"),
    AT(0, "\xfe\xff", "text in UTF-16: convert it first (iconv -f UTF-16 -t UTF-8)"),
    AT(ANYWHERE, "\"dhatFileVersion\"",
       "DHAT's summary, which has sums of call sites" NOT_CALLS ", or valgrind --trace-malloc=yes"),
    AT(0, "desc: ", "Massif's summary, which has snapshots" NOT_CALLS ", or valgrind --trace-malloc=yes"),
    AT(0, "heap profile: ", "a heap profile of gperftools or Go, which has sums of sampled call sites" NOT_CALLS),
    AT(0, "heap_v2/", "a heap profile of jemalloc, which has sums of sampled call sites" NOT_CALLS),
    AT(0, "MALLOC: ", "statistics of tcmalloc" NOT_CALLS),
    AT(0, "memray", "memray's own file: give what memray parse FILE prints, of a recording without --aggregate"),
    AT(0, "reading file \"", "heaptrack_print's summary: give the file that it was made from, heaptrack.PROGRAM.PID.*"),
};

/* pprof's protobuf begins with its sample types: pairs of small numbers of strings. */
static bool is_pprof(const struct import_sample *start) {
  const unsigned char *bytes = start->bytes;
  return start->count >= 12 && memcmp(bytes, "\x0a\x04\x08", 3) == 0 && bytes[4] == 0x10 && bytes[6] == 0x0a;
}

static bool first_line_holds(const struct import_sample *start, const char *bytes, size_t count) {
  const unsigned char *end = memchr(start->bytes, '\n', start->count);
  return memmem(start->bytes, end ? (size_t)(end - start->bytes) : start->count, bytes, count) != NULL;
}

static const char *unreadable_file(const struct import_sample *start) {
  if (is_pprof(start))
    return "a pprof profile, which has sums of call sites" NOT_CALLS;
  for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++) {
    size_t at = signatures[i].offset, count = signatures[i].count;
    if (at == ANYWHERE ? first_line_holds(start, signatures[i].bytes, count)
                       : start->count >= at + count && memcmp(start->bytes + at, signatures[i].bytes, count) == 0)
      return signatures[i].what;
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
  const struct format *of_folder = S_ISDIR(status.st_mode) ? by_folder(path) : NULL;
  if (of_folder)
    return of_folder;
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

/* SPDX-License-Identifier: MIT */
/* The bytes of a foreign recording: from a file, standard input, the only file in a zip archive, or gzip or zstd data,
   recognised by its first bytes; or from an open descriptor (a child's output). Its lines, with their numbers, and
   strict scanners for one line.

   Invariants: memory is bounded whatever the input claims (a zstd frame may need a window of at most 128 MiB);
   compressed data that is cut off or damaged is an error, after the bytes before that, never a shorter file. Of lines,
   memory is bounded by the longest allowed; a NUL byte or a line that is too long is an error; the last may lack its
   newline; a byte-order mark of UTF-8 before the first is left out. Not thread-safe. */
#pragma once

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct byte_source;

/* path "-" reads standard input from its beginning. Returns 0, or -1 with error, which must outlive the source. */
int byte_source_open(struct byte_source **out, const char *path, struct error *error);

/* Reads from a descriptor, without unpacking; takes it over (also on failure). path is for errors. */
int byte_source_of_fd(struct byte_source **out, int fd, const char *path, struct error *error);
void byte_source_close(struct byte_source *source);

/* Reads up to room bytes (> 0). Returns the count; 0 at the end; -1 with error. */
int64_t byte_source_read(struct byte_source *source, void *bytes, size_t room);

enum { LINE_MAX_BYTES = 1 << 16 };

struct line_reader;

/* path "-" reads standard input from its beginning. Returns 0, or -1 with error. */
int line_reader_open(struct line_reader **out, const char *path, struct error *error);

/* The same for a source, which it takes over (also on failure). */
int line_reader_of_source(struct line_reader **out, struct byte_source *source);
void line_reader_close(struct line_reader *reader);

/* The next line, NUL-terminated, without newline (and carriage return), valid until the next call. Returns 1, 0 at the
   end, -1. */
int line_reader_next(struct line_reader *reader, const char **line);

/* Was the last error one of reading or unpacking, not of a line? */
bool line_reader_failed_to_read(const struct line_reader *reader);
uint64_t line_reader_number(const struct line_reader *reader); /* of the line returned last, from 1 */

/* Sets "PATH:LINE: MESSAGE" for the line returned last, and returns -1. */
__attribute__((format(printf, 2, 3))) int line_reader_error(struct line_reader *reader, const char *format, ...);

/* The scanners move *at past what they found, or return false and leave it. */
static inline bool scan_decimal(const char **at, uint64_t *value) {
  const char *c = *at;
  uint64_t sum = 0;
  if (*c < '0' || *c > '9')
    return false;
  for (; *c >= '0' && *c <= '9'; c++)
    if (__builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, (uint64_t)(*c - '0'), &sum))
      return false;
  *value = sum;
  *at = c;
  return true;
}

extern const uint8_t hex_digits[256]; /* value of a digit, plus 1; 0: it is none */

static inline int hex_digit(char c) {
  return hex_digits[(unsigned char)c] - 1;
}

/* "0x" and 1 to 16 digits. */
static inline bool scan_hex(const char **at, uint64_t *value) {
  const char *c = *at;
  if (c[0] != '0' || c[1] != 'x')
    return false;
  uint64_t sum = 0;
  int digit;
  for (c += 2; (digit = hex_digit(*c)) >= 0; c++)
    sum = sum << 4 | (uint64_t)digit;
  if (c == *at + 2 || c > *at + 2 + 16)
    return false;
  *value = sum;
  *at = c;
  return true;
}

/* 1 to 16 digits without "0x", as heaptrack writes. */
static inline bool scan_bare_hex(const char **at, uint64_t *value) {
  const char *c = *at;
  uint64_t sum = 0;
  int digit;
  while ((digit = hex_digit(*c)) >= 0 && c - *at < 16) {
    sum = sum << 4 | (uint64_t)digit;
    c++;
  }
  if (c == *at || hex_digit(*c) >= 0)
    return false;
  *value = sum;
  *at = c;
  return true;
}

static inline bool scan_word(const char **at, const char *word) {
  size_t length = strlen(word);
  if (length && (**at != *word || strncmp(*at, word, length) != 0)) /* most differ in their first letter */
    return false;
  *at += length;
  return true;
}

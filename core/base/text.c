/* SPDX-License-Identifier: MIT */
#include "core/base/text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

const char *text_count(char *to, uint64_t value) {
  char digits[24];
  int count = snprintf(digits, sizeof digits, "%" PRIu64, value), used = 0;
  for (int i = 0; i < count; i++) {
    if (i && (count - i) % 3 == 0)
      to[used++] = ',';
    to[used++] = digits[i];
  }
  to[used] = '\0';
  return to;
}

const char *text_counted(char *to, uint64_t value, const char *noun) {
  size_t used = strlen(text_count(to, value));
  snprintf(to + used, TEXT_NUMBER_BYTES - used, TEXT_JOIN "%s%s", noun, value == 1 ? "" : "s");
  return to;
}

const char *text_size(char *to, double bytes) {
  static const char *const units[] = {"KiB", "MiB", "GiB"};
  if (bytes < 1024)
    return text_counted(to, (uint64_t)bytes, "byte");
  size_t unit = 0;
  for (bytes /= 1024; bytes >= 1024 && unit < 2; unit++)
    bytes /= 1024;
  size_t used = 0;
  if (bytes >= 100) /* 1,023 has a separator */
    used = strlen(text_count(to, (uint64_t)(bytes + 0.5)));
  else
    used = (size_t)snprintf(to, TEXT_NUMBER_BYTES, "%.*f", bytes >= 10 ? 1 : 2, bytes);
  snprintf(to + used, TEXT_NUMBER_BYTES - used, TEXT_JOIN "%s", units[unit]);
  return to;
}

void text_add_list(struct text_line *line, const char *format, va_list arguments) {
  int length = vsnprintf(line->text + line->used, sizeof line->text - line->used, format, arguments);
  line->used += length < 0 ? 0 : (size_t)length;
  if (line->used >= sizeof line->text)
    line->used = sizeof line->text - 1;
}

void text_add(struct text_line *line, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  text_add_list(line, format, arguments);
  va_end(arguments);
}

size_t text_width(int fd) {
  const char *columns = getenv("COLUMNS");
  int asked = columns ? atoi(columns) : 0;
  struct winsize size;
  if (asked > 0)
    return (size_t)asked;
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

static size_t columns_of(const char *word, size_t bytes) {
  size_t columns = 0;
  for (size_t i = 0; i < bytes; i++)
    columns += ((unsigned char)word[i] & 0xc0) != 0x80;
  return columns;
}

static void print_word(FILE *out, const char *word, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    bool joins = strncmp(word + i, TEXT_JOIN, 2) == 0;
    fputc(joins ? ' ' : word[i], out);
    i += joins;
  }
}

void text_print(FILE *out, const char *text, size_t width, size_t column, size_t indent) {
  for (bool first = true; *(text += strspn(text, " \n")); first = false) {
    size_t bytes = strcspn(text, " \n"), columns = columns_of(text, bytes);
    if (!first && column + 1 + columns > width) {
      fprintf(out, "\n%*s", (int)indent, "");
      column = indent;
    } else if (!first) {
      fputc(' ', out);
      column++;
    }
    print_word(out, text, bytes);
    column += columns;
    text += bytes;
  }
  fputc('\n', out);
}

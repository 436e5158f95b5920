/* SPDX-License-Identifier: MIT */
/* Counts as JSON numbers, rows of them, lists of strings, and a value as a line. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline json_t *json_unsigned(uint64_t value) {
  return json_integer((json_int_t)value);
}

static inline void json_set_count(json_t *object, const char *key, uint64_t value) {
  json_object_set_new(object, key, json_unsigned(value));
}

static inline void json_append_counts(json_t *rows, unsigned count, const uint64_t counts[count]) {
  json_t *row = json_array();
  for (unsigned i = 0; i < count; i++)
    json_array_append_new(row, json_unsigned(counts[i]));
  json_array_append_new(rows, row);
}

/* Length of the UTF-8 character at text; 0: it is not one. */
static inline size_t json_character_bytes(const unsigned char *text) {
  if (*text < 0x80)
    return 1;
  size_t bytes = *text >= 0xf0 ? 4 : *text >= 0xe0 ? 3 : 2;
  if (*text < 0xc2 || *text > 0xf4)
    return 0;
  for (size_t i = 1; i < bytes; i++)
    if ((text[i] & 0xc0) != 0x80)
      return 0;
  bool surrogate = *text == 0xed && text[1] > 0x9f,
       overlong = (*text == 0xe0 && text[1] < 0xa0) || (*text == 0xf0 && text[1] < 0x90);
  return surrogate || overlong || (*text == 0xf4 && text[1] > 0x8f) ? 0 : bytes;
}

/* At most max_bytes of text as a JSON string, whatever its bytes are: those that are no UTF-8 become '?'. NULL: no
 * memory.
 */
static inline json_t *json_text(const char *text, size_t max_bytes) {
  char *clean = malloc(max_bytes);
  size_t used = 0;
  if (!clean)
    return NULL;
  for (size_t bytes; *text && used < max_bytes; text += bytes) {
    bytes = json_character_bytes((const unsigned char *)text);
    if (used + bytes > max_bytes)
      break;
    if (bytes)
      memcpy(clean + used, text, bytes);
    else
      clean[used] = '?';
    bytes += bytes == 0;
    used += bytes;
  }
  json_t *string = json_stringn(clean, used);
  free(clean);
  return string;
}

/* The parts of the text between separators. */
static inline json_t *json_split(const char *text, const char *separator) {
  json_t *parts = json_array();
  while (*text) {
    const char *end = strstr(text, separator);
    size_t bytes = end ? (size_t)(end - text) : strlen(text);
    json_array_append_new(parts, json_stringn(text, bytes));
    text += bytes + (end ? strlen(separator) : 0);
  }
  return parts;
}

static inline int json_put_ascii(const char *text, size_t bytes, void *file) {
  for (size_t i = 0; i < bytes; i++)
    if ((text[i] == 0x7f ? fputs("\\u007f", file) : fputc(text[i], file)) == EOF)
      return -1;
  return 0;
}

/* Writes the value in printable ASCII, so that no text in it controls a terminal or turns what stands beside it. False:
   it is NULL, or can't be written. */
static inline bool json_write(const json_t *json, size_t flags, FILE *file) {
  return json && json_dump_callback(json, json_put_ascii, file, flags | JSON_ENSURE_ASCII) == 0;
}

/* The same with a line end, and numbers to 12 digits. */
static inline bool json_write_line(const json_t *json, FILE *file) {
  return json_write(json, JSON_COMPACT | JSON_REAL_PRECISION(12), file) && fputc('\n', file) != EOF &&
         fflush(file) == 0;
}

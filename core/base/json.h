/* SPDX-License-Identifier: MIT */
/* Counts as JSON numbers, rows of them, lists of strings, and a value as a line. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
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

/* Writes the value and a line end, with numbers to 12 digits. False: it is NULL, or can't be written. */
static inline bool json_write_line(const json_t *json, FILE *file) {
  return json && json_dumpf(json, file, JSON_COMPACT | JSON_REAL_PRECISION(12)) == 0 && fputc('\n', file) != EOF &&
         fflush(file) == 0;
}

/* SPDX-License-Identifier: MIT */
/* Counts as JSON numbers, rows of them, and lists of strings. */
#pragma once

#include <jansson.h>
#include <stdint.h>
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

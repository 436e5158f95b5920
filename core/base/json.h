/* SPDX-License-Identifier: MIT */
/* Counts as JSON numbers, and lists of strings. */
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

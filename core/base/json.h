/* SPDX-License-Identifier: MIT */
/* Counts as JSON numbers. */
#pragma once

#include <jansson.h>
#include <stdint.h>

static inline json_t *json_unsigned(uint64_t value) {
  return json_integer((json_int_t)value);
}

static inline void json_set_count(json_t *object, const char *key, uint64_t value) {
  json_object_set_new(object, key, json_unsigned(value));
}

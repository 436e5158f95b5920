/* SPDX-License-Identifier: MIT */
/* What the files that turn a run into JSON share. */
#ifndef REPLAY_REPORT_JSON_REPORT_JSON_H
#define REPLAY_REPORT_JSON_REPORT_JSON_H

#include <jansson.h>
#include <stdint.h>

static inline json_t *json_unsigned(uint64_t value) {
  return json_integer((json_int_t)value);
}

/* Allocators may give memory back that the engine had before them; less than the baseline is none. */
static inline uint64_t above(uint64_t value, uint64_t baseline) {
  return value > baseline ? value - baseline : 0;
}

#endif

/* SPDX-License-Identifier: MIT */
#include "convert/rewrite/rewrite.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct slice_spec slice_everything(void) {
  return (struct slice_spec){
      .to_ns = INFINITY, .to_event = UINT64_MAX, .to_percent = 100, .to_size = UINT64_MAX, .thread_ranges = 0};
}

struct unit {
  const char *name;
  double factor;
};

/* Parses a number and its unit, up to end. Units end with a NULL name. */
static bool parse_quantity(const char *text, const char *end, const struct unit *units, double *value) {
  char copy[64], *rest;
  size_t length = (size_t)(end - text);
  if (length == 0 || length >= sizeof copy || strchr("+-", *text))
    return false;
  memcpy(copy, text, length);
  copy[length] = '\0';
  errno = 0;
  *value = strtod(copy, &rest);
  if (rest == copy || errno || !isfinite(*value))
    return false;
  for (; units->name; units++)
    if (strcmp(rest, units->name) == 0) {
      *value *= units->factor;
      return true;
    }
  return false;
}

/* Parses both sides of FROM..TO; a side left out keeps its value. Returns false if there are no dots, or a side is not
   a number. */
static bool parse_range(const char *text, const struct unit *units, double *from, double *to) {
  const char *dots = strstr(text, "..");
  if (!dots)
    return false;
  const char *end = dots + strlen(dots);
  return (dots == text || parse_quantity(text, dots, units, from)) &&
         (dots + 2 == end || parse_quantity(dots + 2, end, units, to));
}

static const struct unit plain_units[] = {{"", 1}, {NULL, 0}};

static const char *parse_time(struct slice_spec *spec, const char *text) {
  static const struct unit units[] = {{"ns", 1},   {"us", 1e3}, {"ms", 1e6}, {"s", 1e9},
                                      {"m", 60e9}, {"", 1e9},   {NULL, 0}};
  double from = spec->from_ns, to = spec->to_ns;
  if (!parse_range(text, units, &from, &to) || to < from)
    return "time needs FROM..TO, such as 1.5s..3s";
  spec->by_time = true;
  spec->from_ns = fmax(spec->from_ns, from);
  spec->to_ns = fmin(spec->to_ns, to);
  return NULL;
}

static const char *parse_progress(struct slice_spec *spec, const char *text) {
  static const struct unit percent[] = {{"%", 1}, {NULL, 0}};
  double from = 0, to = 100;
  if (strchr(text, '%')) {
    if (!parse_range(text, percent, &from, &to) || to < from || to > 100)
      return "progress needs FROM%..TO%, at most 100%";
    spec->from_percent = fmax(spec->from_percent, from);
    spec->to_percent = fmin(spec->to_percent, to);
    return NULL;
  }
  to = INFINITY;
  if (!parse_range(text, plain_units, &from, &to) || to < from || from != floor(from) || to != floor(to) ||
      from >= 0x1p63)
    return "progress needs FROM..TO in events or in percent, such as 10%..20%";
  if ((uint64_t)from > spec->from_event)
    spec->from_event = (uint64_t)from;
  if (to < 0x1p63 && (uint64_t)to < spec->to_event)
    spec->to_event = (uint64_t)to;
  return NULL;
}

static const char *parse_size(struct slice_spec *spec, const char *text) {
  static const struct unit units[] = {{"", 1},        {"k", 1 << 10}, {"K", 1 << 10}, {"m", 1 << 20},
                                      {"M", 1 << 20}, {"g", 1 << 30}, {"G", 1 << 30}, {NULL, 0}};
  double from = 0, to = INFINITY;
  if (!parse_range(text, units, &from, &to) || to < from || from >= 0x1p63)
    return "size needs FROM..TO in bytes, such as 1k..64k";
  spec->by_size = true;
  if ((uint64_t)from > spec->from_size)
    spec->from_size = (uint64_t)from;
  if (to < 0x1p63 && (uint64_t)to < spec->to_size)
    spec->to_size = (uint64_t)to;
  return NULL;
}

static const char *parse_mark(struct slice_spec *spec, const char *text) {
  const char *dots = strstr(text, "..");
  if (!dots || dots[2] == '\0' ? !dots || dots == text : false)
    return "mark needs FROM..TO, texts of marks";
  if (spec->by_mark)
    return "mark can be given only once";
  spec->by_mark = true;
  spec->from_mark = dots == text ? NULL : text;
  spec->from_mark_bytes = (uint32_t)(dots - text);
  spec->to_mark = dots[2] ? dots + 2 : NULL;
  return NULL;
}

/* Numbers and ranges N..M, separated by commas. */
static const char *parse_threads(struct slice_spec *spec, const char *text) {
  static const char wrong[] = "thread needs numbers or ranges, such as 0,3..5";
  if (spec->thread_ranges)
    return "thread can be given only once";
  while (*text) {
    char *end;
    errno = 0;
    uint64_t from = strtoull(text, &end, 10), to = from;
    if (end == text || strchr("+-", *text))
      return wrong;
    if (strncmp(end, "..", 2) == 0) {
      text = end + 2;
      to = strtoull(text, &end, 10);
      if (end == text || strchr("+-", *text))
        return wrong;
    }
    if (errno || to < from || (*end && *end != ',') || (*end == ',' && !end[1]))
      return wrong;
    if (spec->thread_ranges == SLICE_MAX_RANGES)
      return "too many ranges of threads";
    spec->threads[spec->thread_ranges++] = (struct slice_range){from, to};
    text = *end ? end + 1 : end;
  }
  return spec->thread_ranges ? NULL : wrong;
}

const char *slice_spec_parse(struct slice_spec *spec, const char *text) {
  static const struct {
    const char *key;
    const char *(*parse)(struct slice_spec *spec, const char *text);
  } keys[] = {{"time=", parse_time},
              {"progress=", parse_progress},
              {"size=", parse_size},
              {"mark=", parse_mark},
              {"thread=", parse_threads}};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strncmp(text, keys[i].key, strlen(keys[i].key)) == 0)
      return keys[i].parse(spec, text + strlen(keys[i].key));
  return "a slice is time=, progress=, mark=, thread= or size=, then FROM..TO";
}

bool slice_spec_has_thread(const struct slice_spec *spec, uint32_t thread) {
  for (uint32_t i = 0; i < spec->thread_ranges; i++)
    if (thread >= spec->threads[i].from && thread <= spec->threads[i].to)
      return true;
  return spec->thread_ranges == 0;
}

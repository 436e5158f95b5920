/* SPDX-License-Identifier: MIT */
/* What a trace's INFO and FOOTER contain, as C values with their defaults. Job: tolerate any JSON. Not its job: reading
 * the file. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct trace_info {
  json_t *json;      /* the whole object */
  const char *order; /* "" if absent; these strings belong to json */
  const char *clock_kind;
  const char *program;
  const char *source;
  const char *allocator;
  json_t *lacks;          /* array, or NULL */
  bool lacks_in_flight;   /* so may one object per thread whose acquire was under way: `lacks` has "in_flight" */
  bool lacks_start;       /* objects from before the recording may be freed in it: `lacks` has "start" */
  bool lacks_calls;       /* calls of a kind or of a library are missing throughout: `lacks` has "calls" */
  uint64_t os_page_bytes; /* a power of two; 4096 if absent or invalid */
};

void trace_info_read(struct trace_info *info, const char *info_json);
void trace_info_free(struct trace_info *info);

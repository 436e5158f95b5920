/* SPDX-License-Identifier: MIT */
/* A program's control calls (core/trace/calls.def), counted by their arguments, for people and for JSON. */
#pragma once

#include <jansson.h>
#include <stdint.h>

struct control_count {
  uint8_t call;
  uint64_t option, value, count; /* count 0: none from here on */
};

/* Arguments beyond the last row are not listed. */
enum { CONTROL_COUNTS = 64 };
struct control_counts {
  struct control_count row[CONTROL_COUNTS];
};

void control_counts_add(struct control_counts *counts, uint8_t call, uint64_t option, uint64_t value);

/* {"of": the allocators whose functions they are, as words, "text": "sets M_ARENA_MAX=2 and calls malloc_trim 20
   times", "calls":
   [{"call", "option", "value", "count"}, …]}; NULL: there were none. A new reference. */
json_t *control_counts_json(const struct control_counts *counts);

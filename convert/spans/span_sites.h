/* SPDX-License-Identifier: MIT */
/* Where the live objects of a span were acquired: sums by call stack and place, the largest first, as JSON.

   Not its job: which objects live (spans.h). Memory is O(live objects + stack nodes). Not thread-safe. */
#pragma once

#include "core/trace/read/trace_read.h"

#include <jansson.h>

struct span_object {
  uint64_t size_bytes;
  uint32_t span; /* the span that owns it; 0: none, or not live */
  uint32_t stack, place;
};

struct span_sites;

/* count: of sites in each list. Returns 0, or -1 with error. */
int span_sites_open(struct span_sites **out, struct trace_reader *reader, uint32_t count, struct error *error);
void span_sites_close(struct span_sites *sites);

/* Returns the list of spans.h for the span's own objects. A new reference; NULL: no memory. */
json_t *span_sites_json(struct span_sites *sites, const struct span_object *objects, size_t count, uint32_t span);

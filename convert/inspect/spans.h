/* SPDX-License-Identifier: MIT */
/* What was acquired in the spans of a recording, which its program has marked: for example, the peak of
   a test and the memory that it leaves behind.

   Job: a run over the history, and figures as JSON; if sites are requested, a second run for the objects that live at
   the peak. Definition: a span's own objects are those acquired, by any thread, between "own" and "rest"; an object
   that a realloc moves or resizes there is its own from then on, with its whole new size. So a span's figures need no
   event before it. Memory is O(live objects + marks). Not thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "core/trace/read/trace_read.h"

#include <jansson.h>

struct spans_options {
  const struct history_options *history;
  uint64_t from_byte; /* events in blocks that begin before this offset of the file are left out; 0: none are */
  uint32_t sites;     /* number of sites in each list, the largest first; 0: no lists */
};

/* {"spans": [{"name", "ended", "allocations", "allocated_bytes", "peak_bytes", "growth_bytes", "growth_objects"}],
   "events", "dropped"}. With sites also "peak_sites" and "growth_sites": [{"bytes", "objects", "place", "frames"}], and
   "peak_objects". "place": the N of "heaptape:at N", null if there was no such mark; "frames": as in `dump --stacks`,
   innermost first, empty where stacks were not recorded. "ended" is false for a span that ended only because another
   began or the recording ended. NULL with error. */
json_t *spans_of_trace(struct trace_reader *reader, const struct spans_options *options, struct error *error);

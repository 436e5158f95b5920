/* SPDX-License-Identifier: MIT */
/* What was acquired in the spans of a recording, which its program has marked (span_marks.h): for a test, say, what it
   needs at its peak and what it leaves behind.

   Job: a run over the history, and figures as JSON; a second run, where sites are asked for, for the objects that live
   at the peak. Not its job: who marks, and what is too much. Definition: a span's own objects are those acquired, by
   any thread, between "own" and "rest"; one that a realloc moves or resizes there is its own from then on, with its
   whole new size. So a span's figures need no event before it. Memory is O(live objects + marks). Not thread-safe. */
#pragma once

#include "convert/history/history.h"

#include <jansson.h>

struct spans_options {
  const struct history_options *history;
  uint64_t from_byte; /* events in blocks that begin before this offset of the file are left out; 0: none are */
  uint32_t sites;     /* how many sites of each list to tell, the largest first; 0: no lists */
};

/* {"spans": [{"name", "ended", "allocations", "allocated_bytes", "peak_bytes", "growth_bytes", "growth_objects"}],
   "events", "dropped"}. With sites also "peak_sites" and "growth_sites": [{"bytes", "objects", "place", "frames"}], and
   "peak_objects". "place": the N of "heaptape:at N", null if none was told; "frames": as in `dump --stacks`, innermost
   first, empty where stacks were not recorded. A span that another begins, or the recording's end, ends did not end
   itself: "ended" is false. NULL with error. */
json_t *spans_of_trace(struct trace_reader *reader, const struct spans_options *options, struct error *error);

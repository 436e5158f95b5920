/* SPDX-License-Identifier: MIT */
/* The contents of a slice, as the user specifies them: KEY=FROM..TO; either side may be left out.

     time=1.5s..3s        time since the recording's start; ns, us, ms, s, m; plain numbers are seconds
     progress=10%..20%    share of the events
     progress=1000..5000  events by number, from 0, in merged order
     mark=warm..done      from the first mark of that text to the next mark of the other
     thread=0,3..5        objects that these threads acquired, and their own other calls
     size=1k..64k         objects by the size of their first request, TO included; k, m, g are binary

   For time, progress and mark, FROM belongs to the slice and TO doesn't. Several specs are the intersection. Not its
   job: what the trace has (convert/rewrite/trace_slice.h). */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { SLICE_MAX_RANGES = 64 };

struct slice_range {
  uint64_t from, to;
};

struct slice_spec {
  const json_t *texts;             /* the specs as the user gave them, an array; for INFO */
  double from_ns, to_ns;           /* to_ns < 0: to the end */
  uint64_t from_event, to_event;   /* to_event UINT64_MAX: to the end */
  double from_percent, to_percent; /* of the events */
  const char *from_mark, *to_mark; /* into the arguments, or NULL; from_mark has from_mark_bytes, up to the dots */
  uint32_t from_mark_bytes;
  uint64_t from_size, to_size;                  /* bytes, both included */
  struct slice_range threads[SLICE_MAX_RANGES]; /* numbers, both included */
  uint32_t thread_ranges;                       /* 0: all */
  bool by_time, by_mark, by_size;
};

/* Returns the spec that includes everything. */
struct slice_spec slice_everything(void);

/* Narrows spec by text, which must live as long as spec. Returns NULL, or what is wrong with text. */
const char *slice_spec_parse(struct slice_spec *spec, const char *text);

bool slice_spec_has_thread(const struct slice_spec *spec, uint32_t thread);

/* SPDX-License-Identifier: MIT */
/* Cuts a part out of a trace; the part is itself a legal history.

   Objects that live where the part begins are acquired in a prologue: each by the thread that acquired it, with its
   present size, in the order of their acquires, one stamp before the part's first. Objects that live where it ends stay
   live. An event is in the part if it is within the window and its object, if it has one, is chosen: by the size first
   requested, and by the thread that acquired it. So ops of other threads on a chosen object stay, and releases of
   objects left out are left out. Events keep their stamps, addresses and all other data, except that stamps are raised
   where the order had to be repaired, or was left open by equal stamps of two threads.

   A realloc that the window's beginning cuts in two, between its release and its acquire, only acquires; one that its
   end cuts in two only frees. Releases of objects never seen are left out, and a free is inserted where one was not
   seen, so `check` calls a slice legal. Data accesses are left out. INFO's `slice` describes the source. Memory is that
   of history_run. Not thread-safe.

   The user specifies it by KEY=FROM..TO; either side may be left out:

     time=1.5s..3s        time since the recording's start; ns, us, ms, s, m; plain numbers are seconds
     progress=10%..20%    share of the events
     progress=1000..5000  events by number, from 0, in merged order
     mark=warm..done      from the first mark of that text to the next mark of the other
     thread=0,3..5        objects that these threads acquired, and their own other calls
     size=1k..64k         objects by the size of their first request, TO included; k, m, g are binary

   For time, progress and mark, FROM belongs to the slice and TO doesn't. Several specs are the intersection. */
#pragma once

#include "convert/copy/trace_out.h"

#include <jansson.h>
#include <math.h>
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

#define SLICE_EVERYTHING                                                                                               \
  { .to_ns = INFINITY, .to_event = UINT64_MAX, .to_percent = 100, .to_size = UINT64_MAX }

/* Narrows spec by text, which must live as long as spec. Returns NULL, or what is wrong with text. */
const char *slice_spec_parse(struct slice_spec *spec, const char *text);

/* Returns 0, or -1 with error, also if the trace lacks times, or a mark, that the spec needs. */
int trace_slice(struct trace_reader *reader, const char *path, const struct slice_spec *spec,
                const struct trace_options *options, struct error *error);

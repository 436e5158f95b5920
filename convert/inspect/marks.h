/* SPDX-License-Identifier: MIT */
/* The marks of a trace, in memory: for `info`, and for `dump`, which prints each before the event that follows it.

   Memory is O(marks). Not thread-safe. */
#pragma once

#include "core/base/vector.h"
#include "core/trace/read/trace_read.h"

#include <jansson.h>

struct marks {
  VECTOR(struct trace_mark) list; /* by thread, then by position in it */
  uint32_t threads;
  uint64_t *events;     /* of each thread, those for which marks_before was called */
  uint32_t *next, *end; /* of each thread: its marks not yet returned */
};

/* Returns 0, or -1 with error; marks can be freed either way. */
int marks_load(struct marks *marks, struct trace_reader *reader, struct error *error);
void marks_free(struct marks *marks);

/* Call it before the next event of the thread is printed. Returns a mark that comes before the event, or NULL if none
   is left. Call it until it returns NULL, which counts the event. */
const struct trace_mark *marks_before(struct marks *marks, uint32_t thread);

/* After the last event: returns a remaining mark of the thread (any thread: MERGE_ALL_THREADS), or NULL. */
const struct trace_mark *marks_left(struct marks *marks, uint32_t thread);

/* [{"time_ns", "thread", "events", "text"}] in the order of time; without time_ns if the clock has no rate. */
json_t *marks_json(struct trace_reader *reader, struct error *error);

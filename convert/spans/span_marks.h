/* SPDX-License-Identifier: MIT */
/* The marks with which a program selects the parts of its recording that are counted: "heaptape:begin NAME", then
   alternately "heaptape:own" and "heaptape:rest", finally "heaptape:end"; and "heaptape:at N" for the place in its own
   source at which a thread is.

   Job: the positions of these marks in the merged history. Not its job: counting (spans.h); other marks, which are
   skipped. Invariants: the first four kinds hold for all threads, and come before the first op with their stamp or a
   later one, or the next op of their own thread; "at" holds for its own thread only. Memory is O(marks + threads). Not
   thread-safe. */
#pragma once

#include "core/base/vector.h"
#include "core/trace/read/trace_read.h"

enum span_mark_kind { SPAN_BEGIN, SPAN_OWN, SPAN_REST, SPAN_END, SPAN_AT };

struct span_mark {
  uint64_t stamp, events; /* events: events of its thread before it */
  uint32_t thread;
  enum span_mark_kind kind;
  char *name;     /* of SPAN_BEGIN; else NULL */
  uint32_t place; /* of SPAN_AT, from 1 on */
};

struct span_marks {
  VECTOR(struct span_mark) turns;  /* all but SPAN_AT, by stamp */
  VECTOR(struct span_mark) places; /* SPAN_AT, by thread, then in its order */
  size_t next_turn;
  uint32_t threads;
  uint64_t *events;   /* passed events of each thread, including those before the reader's start */
  size_t *next_place; /* of each thread, in places */
};

/* passed: events of each thread that the reader leaves out; NULL: none. Returns 0, or -1 with error; marks can be freed
   either way. */
int span_marks_load(struct span_marks *marks, struct trace_reader *reader, const uint64_t *passed, struct error *error);
void span_marks_free(struct span_marks *marks);

/* Returns to the start, for another run over the same history. passed: as above. */
void span_marks_rewind(struct span_marks *marks, const uint64_t *passed);

/* Returns the next of turns that comes before an event of that thread with that stamp; NULL: none is left. Call it
   until it returns NULL. */
const struct span_mark *span_marks_turn(struct span_marks *marks, uint32_t thread, uint64_t stamp);

/* Returns the place at which the thread is; 0: no mark gave one. */
uint32_t span_marks_place(struct span_marks *marks, uint32_t thread);

/* Call it after an event of the thread. */
static inline void span_marks_passed(struct span_marks *marks, uint32_t thread) {
  marks->events[thread]++;
}

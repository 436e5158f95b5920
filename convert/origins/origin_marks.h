/* SPDX-License-Identifier: MIT */
/* The positions of a trace's marks among the ops of its workload: the number of ops before each.

   A mark comes before the first op of its own thread that was called after it, and before the first op of any thread
   with its stamp or a later one, whichever is first. A thread's own events may have the stamp of an earlier event, and
   a thread that sets marks need not allocate. Memory is O(marks + threads). Not thread-safe. */
#pragma once

#include "core/base/vector.h"
#include "core/trace/read/trace_read.h"

struct origin_mark {
  uint64_t stamp, events, position; /* position: UINT64_MAX until it is known */
  uint32_t thread;                  /* in the trace */
  char *text;
};

struct origin_marks {
  VECTOR(struct origin_mark) list; /* by stamp; by position after origin_marks_end */
  size_t next_by_stamp;
  uint64_t passed;                /* marks that have a position */
  const struct origin_mark *last; /* the mark that began the current phase; NULL: none; until origin_marks_end */
  uint32_t threads;
  uint64_t *events; /* events passed, by thread of the trace */
  size_t *next;     /* by thread: index in the list from which its pending marks are */
};

/* Returns 0, or -1 with error; marks can be freed either way. */
int origin_marks_load(struct origin_marks *marks, struct trace_reader *reader, struct error *error);
void origin_marks_free(struct origin_marks *marks);

/* Call it before the op at that position, of that thread of the trace. */
void origin_marks_before_op(struct origin_marks *marks, uint64_t position, uint32_t thread, uint64_t stamp);

/* Call it after an event of the thread. */
void origin_marks_after_event(struct origin_marks *marks, uint32_t thread);

/* After the last op: places all remaining marks at the end. */
void origin_marks_end(struct origin_marks *marks, uint64_t ops);

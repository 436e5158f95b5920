/* SPDX-License-Identifier: MIT */
/* The positions of a trace's marks among the ops of its workload: the number of ops before each.

   A mark comes before the first op of its own thread that was called after it, and before the first op of any thread
   with its stamp or a later one, whichever is first. A thread's own events may have the stamp of an earlier event, and
   a thread that sets marks need not allocate. Memory is O(marks + threads). Not thread-safe. */
#pragma once

#include "convert/compile/compile.h"
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

/* Writes the origins file beside a workload (docs/use/BLAME.md): which call stack acquired each object, and the
   positions of the marks.

   Job: observe the ops as they are compiled, and write the file. Not its job: the ops (convert/compile/), names of
   functions (convert/stacks/). Invariants: sites are numbered by their first op; a realloc of a live object creates no
   new site. Memory is O(stack nodes + marks + threads). Not thread-safe. */

struct origins_writer;

/* Creates or truncates path. Returns 0, or -1 with error. */
int origins_writer_open(struct origins_writer **out, struct trace_reader *reader, const char *path,
                        struct error *error);

/* To be given to compile_trace. */
struct compile_observer origins_writer_observer(struct origins_writer *writer);

/* When the workload is complete at that path: looks up symbols, completes the file. Returns 0, or -1 with error. */
int origins_writer_finish(struct origins_writer *writer, const char *workload, struct error *error);

/* writer may be NULL. */
void origins_writer_free(struct origins_writer *writer);

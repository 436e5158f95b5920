/* SPDX-License-Identifier: MIT */
/* Reads a trace file (FORMAT.md): its description, and each thread's events, in order, with stamps filled in.

   Invariants: any file at all yields either events or one error that names path and offset; memory is O(blocks) for the
   index plus one block per open cursor, whatever the file claims; all events before an error are returned, and none is
   made up. A reader may be shared by threads that each use their own cursors. Allocates with malloc. */
#pragma once

#include "core/base/error.h"
#include "core/trace/access_stream.h"
#include "core/trace/event.h"
#include "core/trace/summary.h"

struct trace_reader;
struct trace_cursor;

/* Opens a regular file and walks the block headers. Returns 0, or -1 with error. */
int trace_reader_open(struct trace_reader **out, const char *path, struct error *error);
void trace_reader_close(struct trace_reader *reader);
const struct trace_summary *trace_reader_summary(const struct trace_reader *reader);
const char *trace_reader_path(const struct trace_reader *reader);

/* Leaves out the events and gaps in blocks that begin before that offset, as if they were not in the file; all other
   contents and the summary stay. To be called before any cursor is opened. passed: by thread of the summary; the number
   of its events left out is added. */
void trace_reader_skip(struct trace_reader *reader, uint64_t offset, uint64_t *passed);

/* Events of one thread, by the headers. */
uint64_t trace_reader_thread_events(const struct trace_reader *reader, uint32_t thread);

/* A lower bound of the thread's first stamp, by the headers, so that a merge need not open every thread at its start.
   UINT64_MAX if the thread has no events. */
uint64_t trace_reader_thread_first_stamp(const struct trace_reader *reader, uint32_t thread);

/* A cursor over one thread's events; no memory is held before the first call of next. */
int trace_cursor_open(struct trace_cursor **out, struct trace_reader *reader, uint32_t thread, struct error *error);
void trace_cursor_close(struct trace_cursor *cursor);

/* Fills up to count (at least 1) events. Returns how many, 0 at the thread's end, or -1 with the error passed to
   trace_cursor_open filled in. Events before an error are returned first. */
int trace_cursor_read(struct trace_cursor *cursor, struct trace_event *events, int count);

/* The same for one event. Returns 1, 0 at the thread's end, or -1 with the error passed to trace_cursor_open filled
   in. */
int trace_cursor_next(struct trace_cursor *cursor, struct trace_event *event);

/* Calls visit for each sample in order; a non-zero return of visit stops. Returns 0, visit's value, or -1 with error.
 */
int trace_reader_samples(struct trace_reader *reader, int (*visit)(void *context, const struct trace_sample *sample),
                         void *context, struct error *error);

/* Calls visit for each row of the TOUCHED blocks: an object live at the end and its resident OS pages; whether their
   map fits the object is not checked. A non-zero return of visit stops. Returns 0, visit's value, or -1 with error. */
int trace_reader_touched(struct trace_reader *reader,
                         int (*visit)(void *context, uint64_t address, struct touched touched), void *context,
                         struct error *error);

/* Calls visit for each node of the tree of stacks, in the order of their numbers, from 1. modules: how many modules are
   before it in the file. A non-zero return of visit stops. Returns 0, visit's value, or -1 with error. */
struct trace_stack_node {
  uint32_t node, parent; /* parent 0: the outermost frame */
  uint32_t modules;
  uint64_t instruction;
};
int trace_reader_stacks(struct trace_reader *reader, int (*visit)(void *context, const struct trace_stack_node *node),
                        void *context, struct error *error);

/* The same for modules (in file order), marks (by stamp) and names of threads (the last one is valid). */
int trace_reader_modules(struct trace_reader *reader, int (*visit)(void *context, const struct trace_module *module),
                         void *context, struct error *error);
int trace_reader_marks(struct trace_reader *reader, int (*visit)(void *context, const struct trace_mark *mark),
                       void *context, struct error *error);
int trace_reader_thread_names(struct trace_reader *reader,
                              int (*visit)(void *context, uint32_t thread, const char *name), void *context,
                              struct error *error);

/* The same for the places where events of a thread are missing, each given by how many of its events in the file are
   before it. */
int trace_reader_gaps(struct trace_reader *reader, uint32_t thread,
                      int (*visit)(void *context, uint64_t events_before, uint64_t dropped, const char *why),
                      void *context, struct error *error);

/* The data accesses of a trace that has them, with the calls between them, in order: items of kind ACCESS_EVENT,
   ACCESS_OBJECT, ACCESS_OTHER and ACCESS_BURST (the totals are in the summary). In a recording in bursts
   (summary.accesses.in_bursts) bursts begin and end alternately, and no access is outside a burst. An object's number
   is the number of its acquiring call, and below the count of acquiring calls so far; whether it is live is not
   checked. Memory is one block. next fills *item and returns 1; 0 at the end; or -1 with the error passed to open
   filled in, also where the number of rows differs from the footer's. */
struct trace_access_cursor;
/* Returns 0 if the trace has data accesses, else -1 with an error on how to record them. */
int trace_reader_requires_accesses(const struct trace_reader *reader, struct error *error);
int trace_access_cursor_open(struct trace_access_cursor **out, const struct trace_reader *reader, struct error *error);
void trace_access_cursor_close(struct trace_access_cursor *cursor);
int trace_access_cursor_next(struct trace_access_cursor *cursor, struct access_item *item);

/* Stamp as nanoseconds since the recording's start; 0 where the clock has no rate. */
double trace_stamp_ns(const struct trace_summary *summary, uint64_t stamp);

/* SPDX-License-Identifier: MIT */
/* Writes a trace file (FORMAT.md). Takes each thread's events in order, gathers them into blocks, encodes, compresses
   and appends these.

   Invariants: all rows passed in are in the file after trace_writer_close; where they can't be (the disk is full), the
   file still gets its end, for which room is reserved, with a gap that counts the missing events; a file whose writer
   died is readable up to its last whole block; memory is O(threads x block events), and blocks get smaller with many
   threads. Not thread-safe: one writer, one thread. Allocates with malloc; not for use inside a recorded host. */
#pragma once

#include "core/base/error.h"
#include "core/trace/access_stream.h"
#include "core/trace/event.h"
#include "core/trace/summary.h"

#include <stdbool.h>

struct trace_writer;

struct trace_writer_options {
  int zstd_level;        /* 0: the default, chosen by measurement in trace_write.c */
  uint32_t block_events; /* 0: the default; at most 2^20 */
  bool archive;          /* events in the archive's form, FORMAT.md section 4b */
  bool is_new;           /* path must not exist */
  const int *file;       /* path is open already, with this descriptor, which is duplicated; NULL: it is not */
};

/* Creates or truncates path, and writes header and INFO block. A regular file that another writer has open is an error
   (EBUSY). info_json: a JSON object as in FORMAT.md section 5. options may be NULL. Returns 0, or -1 with error filled
   in; then *out is NULL. */
int trace_writer_open(struct trace_writer **out, const char *path, const char *info_json,
                      const struct trace_writer_options *options, struct error *error);

/* Appends an event of a thread (thread numbers are dense and below 2^24; a new one may be at most the count of those
   seen). event is copied. Stamp 0 = inherits; a thread's very first step must have a stamp, and stamps of a thread must
   not decrease (one that does is raised to its predecessor and counted). Returns 0, or -1: the file can't be written;
   further calls then fail in the same way. */
int trace_writer_event(struct trace_writer *writer, uint32_t thread, const struct trace_event *event);

/* Writes out the thread's pending events; call it when the thread is known to have ended, to free its memory. */
int trace_writer_flush_thread(struct trace_writer *writer, uint32_t thread);

/* Writes out all pending rows, so that the file can be read up to here, as a truncated one. */
int trace_writer_flush(struct trace_writer *writer);

/* Notes that `dropped` events of the thread are missing at this place. why: short text, ASCII. */
int trace_writer_gap(struct trace_writer *writer, uint32_t thread, uint64_t dropped, const char *why);

/* Adds a sample; they are gathered into SAMPLES blocks of up to 4,096. */
int trace_writer_sample(struct trace_writer *writer, const struct trace_sample *sample);

/* Notes that the object at address was live at the end, with these OS pages resident. */
int trace_writer_touched(struct trace_writer *writer, uint64_t address, struct touched touched);

/* Returns the number of the stack's node: the frame at instruction, called by the frame of node parent (0: this is the
   outermost frame). The same pair has the same node, until trace_writer_forget_stacks. 0: no memory, or parent is not a
   node of this trace; the events then have no stack. Nodes are written to the file before the events that name them. */
uint32_t trace_writer_stack_node(struct trace_writer *writer, uint32_t parent, uint64_t instruction);

/* The mappings have changed: the same addresses get new nodes from now on. Call it before adding modules that have
   replaced others. */
void trace_writer_forget_stacks(struct trace_writer *writer);

/* Adds a module, a mark, the name of a thread (at most 255 bytes). The texts are copied. Return 0, or -1 as above. */
int trace_writer_module(struct trace_writer *writer, const struct trace_module *module);
int trace_writer_mark(struct trace_writer *writer, const struct trace_mark *mark);
int trace_writer_thread_name(struct trace_writer *writer, uint32_t thread, const char *name);

/* The trace has data accesses (FORMAT.md section 6a), even if none is added: the footer then has `accesses`. The caller
   sets INFO's `accesses` and "order": "every". Returns 0, or -1 as above. */
int trace_writer_accesses_begin(struct trace_writer *writer);

/* Adds the next item of the stream: the beginning or end of a burst (ignored where nothing changes), a call
   (item.thread as in trace_writer_event), an access, whose object has the number of its acquiring call, or a total for
   the footer. They are gathered into blocks of up to 2^20 rows; memory is one block's columns, about 4 MB. Rows may be
   added earlier or later than the events of their calls. Returns 0; 1 if the format can't hold the item (an object that
   no call has acquired, a thread or a granule out of range, an access outside of bursts), which is then left out; or -1
   as above. begin is implied. */
int trace_writer_access(struct trace_writer *writer, const struct access_item *item);

/* The totals so far. The caller fills in in_flight, nested, final and exit_status before closing, and counted and known
   of the accesses where they are not passed as items. */
struct trace_totals *trace_writer_totals(struct trace_writer *writer);

/* A thread's events taken so far, and the bytes that they requested (without failed calls). 0 where no thread has that
   number. Each pending event is read once for this, by the first request after it. */
struct trace_thread_counts {
  uint64_t events, request_bytes;
};
struct trace_thread_counts trace_writer_thread_counts(struct trace_writer *writer, uint32_t thread);

/* Writes out pending rows, footer and trailer, closes, frees. end: FORMAT.md section 7; clock_hz: 0: as in INFO.
   Returns 0, or -1 with error filled in (also for an earlier error). Frees the writer in either case. */
int trace_writer_close(struct trace_writer *writer, const char *end, double clock_hz, struct error *error);

/* The same in two steps: after the first only trace_writer_totals may be called, which returns what is in the file. */
int trace_writer_finish(struct trace_writer *writer, const char *end, double clock_hz, struct error *error);
void trace_writer_free(struct trace_writer *writer);

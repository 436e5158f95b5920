/* SPDX-License-Identifier: MIT */
/* A trace that convert makes from other traces: threads are renumbered as they appear, and stamps are inherited again
   where possible, so that a copy is no larger than its original.

   Events of a source thread must come in their order. Memory is that of the trace writer plus O(threads). Not
   thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "core/trace/read/trace_read.h"
#include "core/trace/write/trace_write.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct trace_out;

/* Options for every trace that is made. */
struct trace_options {
  bool archive;                          /* the smallest form: large blocks, strongest compression */
  size_t info_flags;                     /* json_dumps's, for INFO */
  const struct history_options *history; /* NULL: shows no progress */
};

/* Creates path. info: INFO's object. source_threads: thread numbers passed to the functions below must be less than
   this. options must live as long as the trace is open. Returns NULL with error. */
struct trace_out *trace_out_open(const char *path, const json_t *info, const struct trace_options *options,
                                 uint32_t source_threads, struct error *error);

/* Appends an event with all stamps filled in, as readers return them. Returns 0, or -1: the file can't be written,
   which trace_out_close reports. */
int trace_out_event(struct trace_out *out, uint32_t thread, const struct trace_event *event);

/* The number of the source's thread in the new trace, assigned now if it had none. */
uint32_t trace_out_add_thread(struct trace_out *out, uint32_t thread);

/* The number of the source's thread in the new trace; UINT32_MAX if it has no event there yet. */
uint32_t trace_out_thread(const struct trace_out *out, uint32_t thread);

/* How many events of the source's thread are in the new trace. */
uint64_t trace_out_thread_events(const struct trace_out *out, uint32_t thread);

/* Shows the user how many events the new trace has, now and then. */
void trace_out_show_progress(struct trace_out *out);

/* For records that are not events: samples, gaps and so on. */
struct trace_writer *trace_out_writer(struct trace_out *out);

/* The source's thread has no more events. */
int trace_out_end_thread(struct trace_out *out, uint32_t thread);

/* The source's data accesses are left out: notes this in the footer. */
void trace_out_drop_accesses(struct trace_out *out);

/* Writes the remaining data and closes. source: its footer is copied, except its totals and its data accesses. failed:
   error is already set; the file is closed nevertheless. Returns 0, or -1 with error. */
int trace_out_close(struct trace_out *out, const struct trace_summary *source, bool failed, struct error *error);

/* Returns the source's INFO as an object that may be changed; the caller drops the reference. NULL: no memory. */
json_t *trace_out_source_info(const struct trace_summary *source);

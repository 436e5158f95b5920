/* SPDX-License-Identifier: MIT */
/* Writes the origins file beside a workload (docs/formats/ORIGINS.md): which call stack acquired each object, and the
   positions of the marks.

   Invariants: sites are numbered by their first op; a realloc of a live object creates no new site. Memory is O(stack
   nodes + marks + threads). Not thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "core/trace/read/trace_read.h"

struct origins_writer;

/* Creates or truncates path. Returns 0, or -1 with error. */
int origins_writer_open(struct origins_writer **out, struct trace_reader *reader, const char *path,
                        struct error *error);

/* Call it for each op, in order. thread: the op's in the workload. Returns 0, or -1 with error. */
int origins_writer_op(struct origins_writer *writer, const struct history_op *op, uint32_t thread, struct error *error);

/* Call it for each step that gives no op, as history_consumer.left_out. */
void origins_writer_left_out(struct origins_writer *writer, const struct merge_step *step);

/* When the workload is complete at that path: looks up symbols (fetch: as in symbols.h), completes the file. Returns 0,
   or -1 with error. */
int origins_writer_finish(struct origins_writer *writer, const char *workload, bool fetch, struct error *error);

/* writer may be NULL. */
void origins_writer_free(struct origins_writer *writer);

/* SPDX-License-Identifier: MIT */
/* Writes the file of data accesses that belongs to a workload (WORKLOAD.md, accesses): one EVENT item for each op, in
   the workload's order; between them the accesses that the program made there, with objects named by their slots; then
   the recording's totals.

   Calls that are not ops (failed calls, releases of objects never seen, calls counted by a gap) have no item. Not
   thread-safe. */
#pragma once

#include "convert/history/access_order.h"
#include "core/trace/read/trace_read.h"

struct compile_accesses;

/* Creates or truncates path. Returns 0, or -1 with error, also if the trace has no accesses. */
int compile_accesses_open(struct compile_accesses **out, struct trace_reader *reader, const char *path,
                          struct error *error);

/* For each op, and for each step that gives none (history_consumer), in order. Return 0, or -1 with the error given to
   open. */
int compile_accesses_op(struct compile_accesses *accesses, const struct history_op *op);
int compile_accesses_left_out(struct compile_accesses *accesses, const struct merge_step *step);

/* After the last op: completes the file and fills in counts. Returns 0, or -1 with the error given to open. */
int compile_accesses_finish(struct compile_accesses *accesses, struct access_order_counts *counts);

/* accesses may be NULL. */
void compile_accesses_free(struct compile_accesses *accesses);

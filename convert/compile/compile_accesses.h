/* SPDX-License-Identifier: MIT */
/* Writes the file of data accesses that belongs to a workload (WORKLOAD.md, accesses): one EVENT item for each op, in
   the workload's order; between them the accesses that the program made there, with objects named by their slots; then
   the recording's totals.

   Calls that are not ops (failed calls, releases of objects never seen, calls counted by a gap) have no item. Not its
   job: the order (convert/history/access_order.h). Not thread-safe. */
#pragma once

#include "convert/history/access_order.h"

struct compile_accesses;

/* Creates or truncates path. Returns 0, or -1 with error, also if the trace has no accesses. */
int compile_accesses_open(struct compile_accesses **out, struct trace_reader *reader, const char *path,
                          struct error *error);

/* Must be called for all ops and all steps left out. */
struct access_order *compile_accesses_order(struct compile_accesses *accesses);

/* After the last op: completes the file and fills in counts. Returns 0, or -1 with the error given to open. */
int compile_accesses_finish(struct compile_accesses *accesses, struct access_order_counts *counts);

/* accesses may be NULL. */
void compile_accesses_free(struct compile_accesses *accesses);

/* SPDX-License-Identifier: MIT */
/* Brings data accesses from one trace into another, for code that makes traces (convert/rewrite/copying/trace_out.h):
   unchanged, or without what reveals the program's addresses.

   Not its job: events. Not thread-safe. */
#pragma once

#include "convert/history/access_order.h"
#include "convert/rewrite/copying/trace_out.h"

/* Copies all accesses, if any, and their totals; call it after the events, since it names their threads. Memory is
   O(block). Returns 0, or -1 with error (empty: the writer has the reason). */
int trace_copy_accesses(struct trace_reader *reader, struct trace_out *out, struct error *error);

/* Accesses for a trace whose events come in the order of the history (convert/rewrite/trace_anonymise.h). Regions of 1
   MiB of other memory, including stacks, are numbered in the order in which they occur. Page colours, and which
   addresses are in one MiB, stay as they were. Memory is that of access_order plus O(slots + regions). */
struct anonymous_accesses;

/* *accesses is NULL if the trace has none. Returns 0, or -1 with error, which must outlive it. */
int anonymous_accesses_open(struct anonymous_accesses **accesses, struct trace_reader *reader, struct trace_out *out,
                            struct error *error);

/* Must be called for every op, and for every step that is not an op, just before its event is written. wanted: the
   step's event is written. accesses may be NULL. Return 0, or -1. */
int anonymous_accesses_op(struct anonymous_accesses *accesses, const struct history_op *op);
int anonymous_accesses_left_out(struct anonymous_accesses *accesses, const struct merge_step *step, bool wanted);

/* After the last event: the remaining accesses, and the totals. accesses may be NULL. */
int anonymous_accesses_finish(struct anonymous_accesses *accesses);
void anonymous_accesses_free(struct anonymous_accesses *accesses);

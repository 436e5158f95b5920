/* SPDX-License-Identifier: MIT */
/* Brings a trace's data accesses into the order of its proven history, with objects named
   by their slots.

   The trace's stream has the calls in recorded order, the history has them in the legal order. They agree except for
   steps of calls that overlap. Where they differ, the history's order is kept, and an access to an object that is not
   live there is counted and left out. Memory is O(live objects + threads + gaps) plus one block; at most
   ACCESS_ORDER_MAX_WAITING calls wait whose order in the history differs. Not thread-safe. */
#pragma once

#include "convert/history/orderer.h"

enum { ACCESS_ORDER_MAX_WAITING = 1 << 20 };

struct access_order_counts {
  uint64_t objects, other;   /* accesses passed on */
  uint64_t lost;             /* accesses left out because their object is not live at that point */
  uint64_t ops_without_call; /* ops after the end of the stream */
};

/* error must outlive it. Returns 0, or -1 with error, also if the trace has no accesses. */
int access_order_open(struct access_order **out, struct trace_reader *reader, const struct access_sink *sink,
                      struct error *error);

/* Must be called for every op, and for every step that is not an op (history_consumer.left_out), in order. The sink
   gets the accesses before it, then one ACCESS_EVENT for an op; for another step only if `wanted` is set and the step
   is the last of its event. Return 0, or -1. */
int access_order_op(struct access_order *order, const struct history_op *op);
int access_order_left_out(struct access_order *order, const struct merge_step *step, bool wanted);

/* After the last op: handles the remaining stream. Returns 0, or -1. */
int access_order_finish(struct access_order *order);

const struct access_order_counts *access_order_counts(const struct access_order *order);

/* order may be NULL. */
void access_order_close(struct access_order *order);

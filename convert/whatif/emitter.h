/* SPDX-License-Identifier: MIT */
/* Hands ops on to the consumer of a rewritten history: with their own slots, live bytes and witness, as
   convert/history/history.h does for the ops of the trace.

   Not its job: choosing ops (rewriter.h). Invariant: each op handed on is legal after those before it, provided that
   the caller acquires objects once, releases them once, and touches them only in between. Memory is O(live objects +
   threads). Not thread-safe. */
#pragma once

#include "convert/history/history.h"

struct emitter {
  const struct history_consumer *consumer;
  struct slots slots;
  struct live_totals live;
  struct witness witness; /* of the ops handed on: their number and the live bytes, objects and peaks */
};

/* threads: of the trace. Returns 0, or -1: no memory; it can be freed either way. The emitter must not move: it points
   to its own witness. */
int emitter_init(struct emitter *emitter, const struct history_consumer *consumer, uint32_t threads,
                 uint64_t os_page_bytes);
void emitter_free(struct emitter *emitter);

/* Hands on the op. Fills in op->slot of a birth; for other ops it must be the slot of a live object. Returns 0, or -1:
   no memory or slots (then the birth's slot is SLOTS_NONE), or the consumer refused. */
int emitter_put(struct emitter *emitter, struct history_op *op);

/* The event gives no op at its place: it is left out, or its op is handed on elsewhere. Returns as emitter_put. */
int emitter_leave_out(struct emitter *emitter, const struct history_op *op);

/* The thread has no more ops. */
void emitter_end_thread(struct emitter *emitter, uint32_t thread);

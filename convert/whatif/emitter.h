/* SPDX-License-Identifier: MIT */
/* Hands ops on to the consumer of a rewritten history: with slots, live bytes and a witness of their own, as
   convert/history/history.h does with those of the trace.

   Not its job: which ops (rewriter.h). Invariant: each op handed on is legal after those before it, if the caller's
   are: objects are acquired once, released once, and touched between. Memory is O(live objects + threads). Not
   thread-safe.
 */
#pragma once

#include "convert/history/history.h"

struct emitter {
  const struct history_consumer *consumer;
  struct slots slots;
  struct live_totals live;
  struct witness witness; /* of the ops handed on: their number and the live bytes, objects and peaks */
};

/* threads: of the trace. Returns 0, or -1: no memory; it can be freed either way. The witness is the emitter's own, so
   the emitter must not move. */
int emitter_init(struct emitter *emitter, const struct history_consumer *consumer, uint32_t threads,
                 uint64_t os_page_bytes);
void emitter_free(struct emitter *emitter);

/* Hands on the op. Of a birth, fills in op->slot; of the others it is the slot of a live object. Returns 0, or -1: no
   memory or slots (then SLOTS_NONE is the birth's slot), or the consumer's refusal. */
int emitter_put(struct emitter *emitter, struct history_op *op);

/* The event is not an op where it stood, but left out, or handed on elsewhere. As emitter_put. */
int emitter_leave_out(struct emitter *emitter, const struct history_op *op);

/* The thread has no more ops. */
void emitter_end_thread(struct emitter *emitter, uint32_t thread);

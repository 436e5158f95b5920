/* SPDX-License-Identifier: MIT */
/* The sink for ops whose addresses and stamps are unknown or must stay hidden: an event of the new trace for each.

   Each thread's addresses are consecutive and none is used twice, so that objects of two threads never overlap, and the
   reader's predictor expects each address. A stamp is the number of a run of events of one thread, or a time.
   Invariant: if the ops are legal, so is the trace, and the compiler makes the same ops of it. Memory is O(threads).
   Not thread-safe. */
#pragma once

#include "convert/copy/trace_out.h"
#include "convert/history/history.h"

struct op_sink {
  struct trace_out *out;
  struct op_sink_thread {
    uint64_t next_address, region_end;
  } * threads;
  uint64_t regions;
  uint64_t stamp;       /* the last one */
  uint32_t last_thread; /* of the current run; UINT32_MAX: the next event begins one */
};

/* Ops of threads below this number follow. False: no memory; it can be freed either way. */
bool op_sink_init(struct op_sink *sink, struct trace_out *out, uint32_t threads);
void op_sink_free(struct op_sink *sink);

/* Appends the op as an event of that thread, not before the stamp. *address: of the object in the op's slot, kept by
   the caller: read where the op is given it, filled in where it acquires; unused without a slot. Returns as
   trace_out_event. */
int op_sink_put(struct op_sink *sink, const struct history_op *op, uint32_t thread, uint64_t stamp, uint64_t *address);

/* The same for an event that is not an op. Fills in its stamps. */
int op_sink_event(struct op_sink *sink, struct trace_event *event, uint32_t thread, uint64_t stamp);

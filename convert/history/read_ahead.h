/* SPDX-License-Identifier: MIT */
/* Decodes the events of many threads ahead of their use, in a helper thread, so that decoding and judging use two
   processors.

   Each thread that has begun has a ring of events: the helper fills it, the user empties it. All rings together hold
   about READ_AHEAD_BYTES, a ring at least 16 events. Where no helper can be had (one processor, no thread to be got)
   the user decodes, to the same effect. Not its job: order. Events come exactly as the cursor gives them, errors after
   the events before them. To be used by one thread. Allocates with malloc. */
#pragma once

#include "core/trace/read/trace_read.h"

enum { READ_AHEAD_BYTES = 16 << 20 };

struct read_ahead;

/* error must outlive it. Returns 0 or -1. */
int read_ahead_open(struct read_ahead **out, struct trace_reader *reader, struct error *error);
void read_ahead_close(struct read_ahead *ahead);

/* Starts reading a thread's events. Returns 0 or -1. */
int read_ahead_begin(struct read_ahead *ahead, uint32_t thread);

/* The thread's next events, at least one, in *span until the next call for this thread; those given before are done
   with. 1, 0 if the thread has ended (its memory is then given back), -1. */
struct event_span {
  const struct trace_event *at, *end;
};
int read_ahead_next(struct read_ahead *ahead, uint32_t thread, struct event_span *span);

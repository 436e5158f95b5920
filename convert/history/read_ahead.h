/* SPDX-License-Identifier: MIT */
/* Decodes the events of many threads ahead of their use, in a helper thread, so that decoding and the history use two
   processors.

   Each thread that has begun has a ring of events: the helper fills it, the user empties it. All rings together hold
   about READ_AHEAD_BYTES, a ring at least 16 events. If there is no helper (one processor, or no thread can be created)
   the user decodes, with the same result. Events come exactly as from the cursor, errors after the events before them.
   For use by one thread. */
#pragma once

#include "core/trace/read/trace_read.h"

/* A thread's events that were decoded ahead. */
struct event_span {
  const struct trace_event *at, *end;
};

struct read_ahead;

/* error must outlive it. Returns 0 or -1. */
int read_ahead_open(struct read_ahead **out, struct trace_reader *reader, struct error *error);

/* ahead may be NULL. */
void read_ahead_close(struct read_ahead *ahead);

/* Before the thread's first read_ahead_next. Returns 0 or -1. */
int read_ahead_begin(struct read_ahead *ahead, uint32_t thread);

/* Gives the thread's next events, at least one, in *span. They are valid until the next call for this thread. Returns
   1, 0 if the thread has ended (its memory is then freed), -1. */
int read_ahead_next(struct read_ahead *ahead, uint32_t thread, struct event_span *span);

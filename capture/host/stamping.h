/* SPDX-License-Identifier: MIT */
/* The stamp of a step, and whether a thread exchanges tags, so that few steps need one, or stamps each event.

   Not its job: what tags mean (ownership.h). Precondition of all: the thread's own producer, in state RECORDING. Keeps
   errno. */
#pragma once

#include "capture/host/producer_state.h"

#include <stdbool.h>

/* Resets the counts: a thread takes the producer, or has just chosen. */
void stamping_begin_window(struct producer *producer);

/* Chooses how the thread stamps, after a slow event; sampled: at a sampled tag entry, whose previous value is
   before. */
void stamping_choose(struct producer *producer, bool sampled, uint16_t before);

/* Orders the step at address (NULL: a step without an object). Returns its stamp; 0: it inherits one. */
uint64_t stamping_stamp(struct producer *producer, const void *address);

/* For slow events at entries that are not sampled, stamping_choose is called once per this many slow events. */
enum { STAMPING_SLOW_EVENTS = 16384 };

/* Counts a slow event of a thread, and lets the thread choose how it stamps. before: what the entry held. */
static inline void stamping_count_slow(struct producer *producer, bool sampled, uint16_t before) {
  producer->window_slow++;
  if (sampled || __builtin_expect(producer->window_slow % STAMPING_SLOW_EVENTS == 0, 0))
    stamping_choose(producer, sampled, before);
}

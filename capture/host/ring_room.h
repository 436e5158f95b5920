/* SPDX-License-Identifier: MIT */
/* Where a thread may write in its ring: laps, their lengths, slots that were given up, and waiting for the collector.

   Not its job: what is written (producer.h). Precondition of all: the thread's own producer, in state RECORDING.
   Invariant: slots are free from the cursor to limit, and PRODUCER_RESERVE records behind it. Keeps errno, except
   ring_room_wait. */
#pragma once

#include "capture/host/producer_state.h"

#include <stdbool.h>

enum { RING_ROOM_FIRST_LAP_BYTES = 16 << 10 }; /* memory of an idle thread */

/* Bytes from the ring's beginning to the cursor. */
static inline uint32_t ring_room_position(const struct producer *producer) {
  return (uint32_t)((char *)producer->cursor - producer->memory);
}

void ring_room_begin_lap(struct producer *producer);

/* Counts events that have found no room; the next DROPPED record reports them. */
void ring_room_count_dropped(struct producer *producer, uint64_t events);

/* Advances limit, into the next lap if need be. False: the ring is full. use_reserve: the reserve may be used then. */
bool ring_room_find(struct producer *producer, bool use_reserve);

/* Waits until the collector has read some of the ring, for 20 ms at most. */
void ring_room_wait(struct producer *producer);

/* SPDX-License-Identifier: MIT */
/* Turns one thread's events into the columns of an EVENTS block (FORMAT.md section 4), before compression.

   Not its job: compression, headers, files. One encoder serves all threads, as blocks do not depend on one another: its
   scratch memory is O(block), not O(threads). Not thread-safe. */
#pragma once

#include "core/base/vector.h"
#include "core/trace/event.h"
#include "core/trace/layout.h"

struct block_encoder;

/* An encoder for blocks of at most max_events; NULL if there is no memory. */
struct block_encoder *block_encoder_new(uint32_t max_events);
void block_encoder_free(struct block_encoder *encoder);

struct encoded_block {
  struct buffer columns[EVENT_COLUMNS]; /* owned by the encoder, valid until its next use */
  uint8_t address_shift;
  uint32_t steps;
  uint64_t last_stamp;
  uint64_t clamped_stamps;
  uint64_t request_bytes; /* of its events that acquire */
};

/* Encodes count events that follow a step with stamp first_stamp. Returns the encoder's result; columns[i].failed: out
   of memory. */
struct encoded_block *block_encode(struct block_encoder *encoder, const struct trace_event *events, uint32_t count,
                                   uint64_t first_stamp);

/* SPDX-License-Identifier: MIT */
/* Turns items of the stream of data accesses (core/trace/access_stream.h) into the columns of ACCESSES blocks (FORMAT.md
   section 6a), before compression.

   Not its job: compression, headers, files. One encoder serves a whole trace, as objects are numbered over all blocks.
   Memory is twice one block's columns, and 4 bytes for each row. Not thread-safe. */
#pragma once

#include "core/base/vector.h"
#include "core/trace/access_stream.h"
#include "core/trace/layout.h"

struct access_encoder;

/* NULL if there is no memory. */
struct access_encoder *access_encoder_new(void);
void access_encoder_free(struct access_encoder *encoder);

/* Adds a row to the block; not for totals, nor beyond TRACE_MAX_ROWS. False, and nothing has changed, if the format
   can't hold the item. */
bool access_encode(struct access_encoder *encoder, const struct access_item *item);

/* The block so far: rows and counts, and the columns once it is finished. Owned by the encoder, valid until its next
   use. columns[i].failed: out of memory. */
struct encoded_accesses {
  struct buffer columns[ACCESS_COLUMNS];
  uint32_t rows;
  uint64_t calls, objects, other;    /* rows of each sort */
  uint64_t first_acquired, acquired; /* call rows that acquired, before the block and after it */
};
const struct encoded_accesses *access_encoder_block(const struct access_encoder *encoder);
const struct encoded_accesses *access_encoder_finish(struct access_encoder *encoder);

/* Begins the next block. */
void access_encoder_next_block(struct access_encoder *encoder);

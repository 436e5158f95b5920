/* SPDX-License-Identifier: MIT */
/* Puts an encoded EVENTS block into the archive's form (FORMAT.md section 4b): columns 17 to 19 in place of 1 to 4,
   7 and 8. A separate pass over an encoded block, so that it costs a recording nothing.

   Not its job: compression. Scratch memory is O(block). Not thread-safe. */
#pragma once

#include "core/trace/write/block_encode.h"

struct archive_encoder;

/* NULL if there is no memory. */
struct archive_encoder *archive_encoder_new(uint32_t max_events);
void archive_encoder_free(struct archive_encoder *encoder);

/* block: the result of block_encode for these events; its columns are replaced. columns[i].failed: out of memory. */
void archive_encode(struct archive_encoder *encoder, struct encoded_block *block, const struct trace_event *events,
                    uint32_t count);

/* SPDX-License-Identifier: MIT */
/* Turns the columns of an EVENTS block (FORMAT.md section 4), already decompressed, back into events.

   Not its job: files, checksums, decompression. Every count, distance and stack is checked against the block's
   contents, so any bytes decode to events or an error, never a wild read. Scratch memory is O(rows). Not thread-safe;
   one decoder per cursor. */
#pragma once

#include "core/base/vector.h"
#include "core/trace/event.h"
#include "core/trace/layout.h"
#include "core/trace/live_list.h"

struct byte_span {
  const uint8_t *at, *end;
};

struct block_decoder {
  struct byte_span columns[EVENT_COLUMNS];
  uint8_t release_shift, acquire_shift;
  uint32_t rows, row, steps, step;
  uint32_t acquired, pushed;
  uint64_t previous_release, expected_acquire;
  uint64_t stamp, last_stamp;
  uint64_t steps_to_stamp;      /* unstamped steps before the next stamped one; UINT64_MAX: no more stamped steps */
  uint64_t releases_to_touched; /* likewise for column 11 */
  uint64_t touched_os_pages;
  uint32_t stack_nodes; /* of the tree of stacks; events may name nodes up to this number */
  bool has_optional;    /* one of columns 12 to 15 is there */
  bool present[COLUMN_OTHER_STACK + 1 - COLUMN_LATENCY];
  uint32_t previous_stack[2]; /* of the stack columns */
  bool archive;               /* columns 17 to 19 are in place of 1 to 4, 7 and 8 */
  struct live_list live;      /* of column 18 */
  enum class_system classes;
  struct fresh *fresh;           /* PREDICTOR_CLASSES of them; NULL until the first block of an archive */
  struct buffer acquires, freed; /* struct acquire[rows], struct freed[rows] of block_decode.c */
  struct buffer links;           /* struct live_links[rows + 1] */
  uint32_t stack[PREDICTOR_CLASSES];
};

/* Begins a block whose columns (empty spans where left out), shifts, rows, steps, stamp (the header's first),
   last_stamp and stack_nodes the caller has filled in; the column bytes must outlive the decoding. Returns NULL, or
   what is wrong. */
const char *block_decode_begin(struct block_decoder *decoder);

/* Decodes up to count further events of the block; not to be called again after an error. Returns how many there are
   before the block's end or the first error, which *wrong then describes. With the last event it also checks that
   nothing is left over. */
uint32_t block_decode_rows(struct block_decoder *decoder, struct trace_event *events, uint32_t count,
                           const char **wrong);

void block_decoder_free(struct block_decoder *decoder);

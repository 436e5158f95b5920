/* SPDX-License-Identifier: MIT */
/* Turns the columns of an ACCESSES block (FORMAT.md section 6a), already decompressed, back into items of the stream.

   Not its job: files, checksums, decompression; whether an object is live, which only the events show. Every code,
   place and number is checked, so any bytes decode to items or an error, never a wild read. Memory is 8 bytes for each
   OS page of a block. Not thread-safe; one decoder per cursor. */
#pragma once

#include "core/trace/access_stream.h"
#include "core/trace/accesses.h"
#include "core/trace/layout.h"
#include "core/trace/read/block_decode.h"

struct access_decoder {
  struct byte_span columns[ACCESS_COLUMNS];
  uint32_t rows, row;
  uint64_t acquired, last_acquired; /* call rows that acquired: up to here; up to the block's end, by its header */
  uint64_t stack, page;             /* of earlier rows: stack pointer divided by 8, page put into the list last */
  uint32_t entry_limit, page_limit; /* how many the block has */
  struct buffer groups;             /* uint32_t for each row: its entry of the list of objects, its OS page's number */
  struct buffer entries;            /* struct access_entry each: entries of the list of objects, as they were put in */
  struct buffer pages;              /* struct access_page each: the block's OS pages by number */
};

/* Begins a block whose columns (empty spans where left out), rows, acquired (the header's first stamp) and
   last_acquired the caller has filled in; the column bytes must outlive the decoding. Returns NULL, or what is wrong.
 */
const char *access_decode_begin(struct access_decoder *decoder);

/* Decodes the next row; call it exactly rows times. Returns NULL, or what is wrong. With the last row it also checks
   that nothing is left over. */
const char *access_decode_next(struct access_decoder *decoder, struct access_item *item);

void access_decoder_free(struct access_decoder *decoder);

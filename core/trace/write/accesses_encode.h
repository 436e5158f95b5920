/* Turns items of accesses (core/accesses/stream.h) into the columns of ACCESSES blocks (FORMAT.md section 6a), before
   compression.

   Not its job: compression, headers, files; totals. Items of one trace, in order; a block's columns depend on nothing
   before it but the number of acquired objects. Memory is O(block). Not thread-safe. */
#ifndef CORE_TRACE_WRITE_ACCESSES_ENCODE_H
#define CORE_TRACE_WRITE_ACCESSES_ENCODE_H

#include "core/accesses/stream.h"
#include "core/base/buffer.h"
#include "core/trace/layout.h"

enum {
  ACCESS_ROWS_PER_BLOCK = 1 << 18, /* what is lost where the recorder is killed */
};

/* A list of what was accessed last, the newest first. */
struct access_list {
  uint64_t key[ACCESS_LIST_ENTRIES + 1];
  int64_t granule[ACCESS_LIST_ENTRIES + 1];
  uint32_t count;
};

/* All zero at the start of a trace. */
struct access_encoder {
  struct buffer columns[ACCESS_COLUMNS]; /* of the block under way; columns[i].failed tells lack of memory */
  uint32_t rows, rows_of[ACCESS_TOTAL];  /* by enum access_kind */
  uint64_t first_acquired, acquired;     /* before the block, and after its last row */
  struct access_list objects, pages;
  uint64_t stack, page;
};

/* Appends a row; item: an EVENT, an access to an object that was acquired, or an OTHER. Precondition: there are fewer
   than ACCESS_ROWS_PER_BLOCK rows. */
void access_encoder_add(struct access_encoder *encoder, const struct access_item *item);

/* Begins the next block, when the columns have been written. */
void access_encoder_next(struct access_encoder *encoder);

void access_encoder_free(struct access_encoder *encoder);

#endif

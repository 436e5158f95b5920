/* SPDX-License-Identifier: MIT */
/* The internals of the trace reader, for its own files; all other code uses trace_read.h. */
#pragma once

#include "core/trace/read/block_read.h"
#include "core/trace/summary.h"

/* One block, as found by the walk over the headers. */
struct block_place {
  uint64_t offset;
  uint64_t first_stamp;
  uint32_t thread, rows, sequence;
  uint32_t stack_nodes; /* in the blocks before it */
  uint8_t type;
};

struct trace_reader {
  struct block_source source;
  char *path; /* owns source.path */
  struct trace_summary summary;
  char *info_json, *footer_json;
  struct buffer places; /* struct block_place: EVENTS and GAP, sorted by thread, then place in the file */
  struct buffer others; /* struct block_place: all blocks of sections 4a, 6 and 6a, in file order */
  uint64_t footer_offset;
  uint64_t acquired_in_accesses; /* the last ACCESSES block's last stamp */
};

static inline size_t place_count(const struct buffer *places) {
  return places->used / sizeof(struct block_place);
}
static inline struct block_place *place_at(const struct buffer *places, size_t i) {
  return (struct block_place *)places->bytes + i;
}

/* Index of the thread's first block in places, or the place count. */
size_t reader_first_place(const struct trace_reader *reader, uint32_t thread);

/* Reads the header and directory of a block that the walk found. Returns 0, or -1 with error. */
int reader_block(const struct trace_reader *reader, const struct block_place *place, struct block *block,
                 struct error *error);

/* Calls visit for each block of the type, in file order, while it returns 0. place has what the block's own header does
   not contain. */
typedef int (*block_visit)(const struct block *block, const struct block_place *place, struct block_memory *memory,
                           void *context, struct error *error);
int reader_visit_blocks(const struct trace_reader *reader, enum block_type type, block_visit visit, void *context,
                        struct error *error);

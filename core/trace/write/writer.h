/* SPDX-License-Identifier: MIT */
/* The internals of the trace writer, for its own files; all other code uses trace_write.h.

   Job: the writer's state; one block into the file. Not its job: what is in the block. */
#pragma once

#include "core/base/vector.h"
#include "core/trace/access_stream.h"
#include "core/trace/event.h"
#include "core/trace/layout.h"
#include "core/trace/summary.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <zstd.h>

/* The tree of call stacks, interned: a node is a frame (instruction) below its parent, and the same pair is one node.

   Job: numbers for pairs. Nodes are numbered from 1 in order of their creation and are never removed; memory is about
   32 bytes per node. Not thread-safe. Allocates with malloc. */
struct stack_slot {
  uint64_t instruction;
  uint32_t parent, node; /* node 0: free */
};

/* All zero is an empty table. */
struct stack_table {
  struct stack_slot *slots;
  uint32_t mask; /* slots less 1 */
  uint32_t used; /* slots used since the last stack_table_forget */
  uint32_t nodes;
};

/* Turns one thread's events into the columns of an EVENTS block (FORMAT.md section 4), before compression.

   One encoder serves all threads, as blocks do not depend on one another: its scratch memory is O(block), not
   O(threads). Not thread-safe. */
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

/* Puts an encoded EVENTS block into the archive's form (FORMAT.md section 4b): columns 17 to 19 in place of 1 to 4,
   7 and 8. A separate pass over an encoded block, so that it costs a recording nothing.

   Scratch memory is O(block). Not thread-safe. */
struct archive_encoder;

/* NULL if there is no memory. */
struct archive_encoder *archive_encoder_new(uint32_t max_events);
void archive_encoder_free(struct archive_encoder *encoder);

/* block: the result of block_encode for these events; its columns are replaced. columns[i].failed: out of memory. */
void archive_encode(struct archive_encoder *encoder, struct encoded_block *block, const struct trace_event *events,
                    uint32_t count);

struct access_encoder;
void access_encoder_free(struct access_encoder *encoder);

enum {
  SAMPLES_PER_BLOCK = 4096,
  RESERVE_BYTES = 16 << 10, /* kept free on the disk for the gap, the footer and an index of about 500 blocks */
};

struct thread_state {
  struct trace_event *events; /* those not yet in a block */
  uint32_t count, room;
  uint32_t sequence;
  uint64_t last_stamp;    /* of the last step before events[0] */
  uint64_t written;       /* events in blocks */
  uint64_t request_bytes; /* requested by these events */
  uint32_t counted;       /* how many of events[] are counted in counted_bytes */
  uint64_t counted_bytes;
};

struct trace_writer {
  char *path;
  int fd;
  uint64_t offset;
  int saved_errno; /* of the first failed write; 0: none failed */
  bool last_words; /* writes may now use the reserve */
  uint32_t block_events, block_limit;
  VECTOR(struct thread_state) threads;
  uint32_t pending_threads; /* that hold memory */
  struct block_encoder *encoder;
  struct archive_encoder *archive; /* NULL: not requested */
  ZSTD_CCtx *zstd;
  int zstd_level;
  struct buffer compressed, index;
  struct trace_sample samples[SAMPLES_PER_BLOCK];
  uint32_t sample_count;
  struct buffer touched[3]; /* columns of the next TOUCHED block */
  uint32_t touched_count;
  bool touched_has_parts;
  uint64_t touched_address;
  struct stack_table stacks;
  struct buffer stack_column[2]; /* of the next STACKS block: parent, instruction */
  uint32_t stack_count;
  uint64_t stack_instruction;
  struct access_encoder *accesses; /* NULL: no access was added */
  struct buffer switch_column;     /* of the next BURSTS block */
  uint32_t switch_count;
  uint64_t switch_row;                    /* of the last switch in the column */
  json_t *modules, *marks, *thread_names; /* arrays of the next blocks; NULL: empty */
  struct trace_totals totals;
};

/* One column on its way into a block. */
struct column {
  struct column_entry entry;
  const void *bytes;
};

/* Notes the first failure; returns -1. */
int writer_fail(struct trace_writer *writer, int error);

/* Appends bytes to the file; after a first failure it writes nothing. Returns 0 or -1. */
int writer_append(struct trace_writer *writer, const void *bytes, size_t count);

struct column column_of(uint8_t id, const void *bytes, size_t count);

/* Compresses the columns that are not empty and appends header, directory and frames in one write, so that a file
   system that fills up leaves at most one broken block at the end. */
int write_block(struct trace_writer *writer, struct block_header *header, const struct column *columns, int count);
int write_json_block(struct trace_writer *writer, struct block_header header, const char *json);

/* Each writes the pending rows of one kind as a block. */
int flush_samples(struct trace_writer *writer);
int flush_touched(struct trace_writer *writer);
int flush_accesses(struct trace_writer *writer);
int flush_annotations(struct trace_writer *writer);
void annotations_free(struct trace_writer *writer);

/* Discards the pending rows of accesses. */
void lose_accesses(struct trace_writer *writer);
/* FOOTER's `accesses`; NULL if none were recorded. */
json_t *footer_accesses(const struct trace_writer *writer);

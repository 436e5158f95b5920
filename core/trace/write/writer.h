/* SPDX-License-Identifier: MIT */
/* The internals of the trace writer, for its own files; all other code uses trace_write.h.

   Job: the writer's state; one block into the file. Not its job: what is in the block. */
#pragma once

#include "core/base/vector.h"
#include "core/trace/layout.h"
#include "core/trace/summary.h"
#include "core/trace/write/accesses_encode.h"
#include "core/trace/write/archive_encode.h"
#include "core/trace/write/block_encode.h"
#include "core/trace/write/stack_table.h"

#include <jansson.h>
#include <zstd.h>

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
  struct buffer touched[2]; /* columns of the next TOUCHED block */
  uint32_t touched_count;
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

/* SPDX-License-Identifier: MIT */
/* The inside of a trace writer, for the files that make it up; everybody else uses trace_write.h.

   Job: the writer's state; one block into the file. Not its job: what is in the block. */
#pragma once

#include "core/base/buffer.h"
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
  RESERVE_BYTES = 16 << 10, /* kept free on the disk for the gap, the footer and an index of some 500 blocks */
};

struct thread_state {
  struct trace_event *events; /* those not yet in a block */
  uint32_t count, room;
  uint32_t sequence;
  uint64_t last_stamp;    /* in force before events[0] */
  uint64_t written;       /* events, those in blocks */
  uint64_t request_bytes; /* that they asked for */
  uint32_t counted;       /* of events[], those whose requests are in counted_bytes */
  uint64_t counted_bytes;
};

struct trace_writer {
  char *path;
  int fd;
  uint64_t offset;
  int saved_errno; /* of the first failed write; 0: all is well */
  bool last_words; /* what is written now may use the reserve */
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
  struct buffer touched[2]; /* columns of the TOUCHED block to come */
  uint32_t touched_count;
  uint64_t touched_address;
  struct stack_table stacks;
  struct buffer stack_column[2]; /* of the STACKS block to come: parent, instruction */
  uint32_t stack_count;
  uint64_t stack_instruction;
  struct access_encoder *accesses; /* NULL: no access has come */
  struct {
    struct buffer columns[ACCESS_SAMPLE_COLUMNS]; /* of the block to come */
    struct trace_access_sample last;
  } access_samples;
  struct buffer switch_column; /* of the BURSTS block to come */
  uint32_t switch_count;
  uint64_t switch_row;                    /* of the last one in the column */
  json_t *modules, *marks, *thread_names; /* arrays of the blocks to come; NULL: empty */
  struct trace_totals totals;
};

/* One column on its way into a block. */
struct column {
  struct column_entry entry;
  const void *bytes;
};

/* Notes the first failure; returns -1. */
int writer_fail(struct trace_writer *writer, int error);

/* Appends bytes to the file; whatever is not written after a first failure is left out. Returns 0 or -1. */
int writer_append(struct trace_writer *writer, const void *bytes, size_t count);

struct column column_of(uint8_t id, const void *bytes, size_t count);

/* Compresses the columns that are not empty and appends header, directory and frames in one write, so that a file
   system that fills up leaves at most one broken block at the end. */
int write_block(struct trace_writer *writer, struct block_header *header, const struct column *columns, int count);
int write_json_block(struct trace_writer *writer, struct block_header header, const char *json);

/* Write what waits for a block of its kind. */
int flush_samples(struct trace_writer *writer);
int flush_touched(struct trace_writer *writer);
int flush_accesses(struct trace_writer *writer);
int flush_access_samples(struct trace_writer *writer);
void access_samples_free(struct trace_writer *writer);
int flush_annotations(struct trace_writer *writer);
void annotations_free(struct trace_writer *writer);

/* The rows that wait for a block are given up. */
void lose_accesses(struct trace_writer *writer);
void lose_access_samples(struct trace_writer *writer);
/* FOOTER's `accesses`; NULL if none were recorded. */
json_t *footer_accesses(const struct trace_writer *writer);
/* FOOTER's `access_samples`, likewise. */
json_t *footer_access_samples(const struct trace_writer *writer);

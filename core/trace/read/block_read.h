/* SPDX-License-Identifier: MIT */
/* Reads one block of a trace file: its header and directory, and its columns, decompressed (FORMAT.md section 3).

   Not its job: the meaning of columns, and which blocks a file must have. Every size is checked against the file and
   the format's limits before memory is taken for it. Any number of callers may read one source at once. */
#pragma once

#include "core/base/error.h"
#include "core/base/vector.h"
#include "core/trace/layout.h"
#include "core/trace/read/block_decode.h"

#include <jansson.h>

/* Where blocks come from; path is for error texts. */
struct block_source {
  const char *path;
  int fd;
  uint64_t file_bytes;
};

struct block {
  const struct block_source *source;
  uint64_t offset;
  struct block_header header;
  struct column_entry directory[TRACE_MAX_COLUMNS];
};

/* Memory that the reading of several blocks shares. */
struct block_memory {
  struct buffer stored, raw;
};
void block_memory_free(struct block_memory *memory);

/* Reads and checks header and directory at offset. Returns 1, 0 if the file ends before the block does (truncated), or
   -1 with error. The source must live as long as the block. */
int block_read_head(const struct block_source *source, uint64_t offset, struct block *block, struct error *error);

/* Decompresses the columns with ids below known into memory->raw and sets spans[known] to them (an empty span for a
   column that is left out). spans are valid until memory->raw changes. Returns 0, or -1 with error. */
int block_read_columns(const struct block *block, int known, struct byte_span *spans, struct block_memory *memory,
                       struct error *error);

/* Returns column 1 as text, NUL-terminated, and as a JSON object; the caller frees both. NULL with error if it is not
   one object. */
char *block_read_json(const struct block *block, json_t **object, struct error *error);

/* The same for an array of as many values as the block has rows, without its text. NULL with error. */
json_t *block_read_array(const struct block *block, struct error *error);

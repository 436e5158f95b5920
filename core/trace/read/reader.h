/* SPDX-License-Identifier: MIT */
/* The internals of the trace reader, for its own files, its tests and its fuzzer; all other code uses trace_read.h.

   block_read.c reads one block of a file: header, directory, decompressed columns (FORMAT.md section 3). block_decode.c
   turns the columns of an EVENTS block into events (sections 4, 4b), accesses_read.c those of an ACCESSES block into
   items (6a); both files check every code, count, place and number, so any bytes decode to something or to an error,
   never a wild read. trace_read.c walks the blocks and has the cursors over events, block_read.c also the visits to
   everything else. Every size is checked against the file and the format's limits before memory is taken for it.
   Any number of callers may read one source at once; a decoder belongs to one cursor. Not their job: whether an object
   is live, which only the history shows. */
#pragma once

#include "core/base/error.h"
#include "core/base/vector.h"
#include "core/trace/access_stream.h"
#include "core/trace/event.h"
#include "core/trace/layout.h"
#include "core/trace/live_list.h"
#include "core/trace/summary.h"

#include <jansson.h>

/* Turns the columns of an EVENTS block (FORMAT.md section 4), already decompressed, back into events.

   Every count, distance and stack is checked against the block's contents, so any bytes decode to events or an error,
   never a wild read. Scratch memory is O(rows). Not thread-safe; one decoder per cursor. */
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
  uint64_t touched_to_parts; /* entries of column 11 before the next that has one of column 20; UINT64_MAX: no more */
  uint64_t touched_parts;
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

/* Reads one block of a trace file: its header and directory, and its columns, decompressed (FORMAT.md section 3).

   Every size is checked against the file and the format's limits before memory is taken for it. Any number of callers
   may read one source at once. */
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

/* Turns the columns of an ACCESSES block (FORMAT.md section 6a), already decompressed, back into items of the stream.

   Not its job: files, checksums, decompression; whether an object is live, which only the events show. Every code,
   place and number is checked, so any bytes decode to items or an error, never a wild read. Memory is 8 bytes for each
   OS page of a block. Not thread-safe; one decoder per cursor. */
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

/* One block, as found by the walk over the headers. */
struct block_place {
  uint64_t offset;
  uint64_t first_stamp, last_stamp;
  uint32_t thread, rows, sequence;
  uint32_t stack_nodes; /* in the blocks before it */
  uint32_t columns;     /* bit i: it has column i, of the first 32 */
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

/* Reads an EVENTS block and begins its decoding; memory must live as long as that. Returns 0, or -1 with error. */
int reader_begin_events(const struct trace_reader *reader, const struct block_place *place,
                        struct block_decoder *decoder, struct block_memory *memory, struct error *error);

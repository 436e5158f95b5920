/* SPDX-License-Identifier: MIT */
#include "core/base/vector.h"
#include "core/trace/read/accesses_decode.h"
#include "core/trace/read/reader.h"
#include "core/trace/read/trace_read.h"

#include <inttypes.h>
#include <stdlib.h>

struct trace_access_cursor {
  const struct trace_reader *reader;
  struct error *error;
  size_t next_place;
  uint64_t block_offset;
  bool in_block;
  struct trace_access_totals read; /* rows */
  struct block_memory memory;
  struct access_decoder decoder;
  VECTOR(uint64_t) switches; /* of the last BURSTS block: the rows before each, of all ACCESSES blocks */
  size_t next_switch;
  bool in_burst;
};

int trace_reader_requires_accesses(const struct trace_reader *reader, struct error *error) {
  if (reader->summary.accesses.recorded)
    return 0;
  return error_set(error, reader->path, "has no data accesses: 'heaptape record --accesses' records them");
}

int trace_access_cursor_open(struct trace_access_cursor **out, const struct trace_reader *reader, struct error *error) {
  struct trace_access_cursor *cursor = *out = calloc(1, sizeof *cursor);
  if (!cursor)
    return error_set(error, reader->path, "out of memory");
  cursor->reader = reader;
  cursor->error = error;
  return 0;
}

void trace_access_cursor_close(struct trace_access_cursor *cursor) {
  if (!cursor)
    return;
  block_memory_free(&cursor->memory);
  access_decoder_free(&cursor->decoder);
  free(cursor->switches.at);
  free(cursor);
}

static int check_totals(const struct trace_access_cursor *cursor) {
  const struct trace_reader *reader = cursor->reader;
  const struct trace_access_totals *footer = &reader->summary.accesses, *read = &cursor->read;
  if (!reader->footer_json ||
      (footer->calls == read->calls && footer->objects == read->objects && footer->other == read->other))
    return 0;
  return error_at(cursor->error, reader->path, reader->footer_offset,
                  "footer counts %" PRIu64 " calls and accesses to objects %" PRIu64 ", to other memory %" PRIu64
                  "; ACCESSES blocks hold %" PRIu64 ", %" PRIu64 " and %" PRIu64,
                  footer->calls, footer->objects, footer->other, read->calls, read->objects, read->other);
}

static uint64_t rows_read(const struct trace_access_cursor *cursor) {
  return cursor->read.calls + cursor->read.objects + cursor->read.other;
}

/* Takes the rows of a BURSTS block, in span, as the next switches. All earlier switches have been passed. */
static int take_switch_rows(struct trace_access_cursor *cursor, const struct block_place *place,
                            struct byte_span *span) {
  const char *path = cursor->reader->path;
  uint64_t row = 0, difference;
  if (cursor->next_switch < cursor->switches.count)
    return error_at(cursor->error, path, place->offset, "a burst of the previous BURSTS block is beyond this one");
  cursor->switches.count = cursor->next_switch = 0;
  for (uint32_t i = 0; i < place->rows; i++) {
    if (!leb_get(&span->at, span->end, &difference) || difference > UINT64_MAX - row)
      return error_at(cursor->error, path, place->offset, "the column of rows is too short or has a bad number");
    row += difference;
    if (row < rows_read(cursor))
      return error_at(cursor->error, path, place->offset, "a burst begins or ends among the rows before the block");
    uint64_t *added = vector_add(&cursor->switches);
    if (!added)
      return error_set(cursor->error, path, "out of memory");
    *added = row;
  }
  if (span->at != span->end)
    return error_at(cursor->error, path, place->offset, "the column of rows has entries left over");
  return 0;
}

static int load_switches(struct trace_access_cursor *cursor, const struct block_place *place) {
  struct block block;
  struct byte_span columns[BURST_COLUMNS];
  if (reader_block(cursor->reader, place, &block, cursor->error) != 0 ||
      block_read_columns(&block, BURST_COLUMNS, columns, &cursor->memory, cursor->error) != 0)
    return -1;
  return take_switch_rows(cursor, place, &columns[BURST_COLUMN_ROWS]);
}

/* Does a burst begin or end at the cursor's row? */
static bool take_switch(struct trace_access_cursor *cursor, struct access_item *item) {
  if (cursor->next_switch == cursor->switches.count || cursor->switches.at[cursor->next_switch] != rows_read(cursor))
    return false;
  cursor->next_switch++;
  cursor->in_burst = !cursor->in_burst;
  *item = (struct access_item){.kind = ACCESS_BURST, .value = cursor->in_burst};
  return true;
}

/* Loads the next block of rows, or the BURSTS blocks before it. Returns 1, 0 at the end, -1 on error. */
static int load_block(struct trace_access_cursor *cursor) {
  const struct trace_reader *reader = cursor->reader;
  struct access_decoder *decoder = &cursor->decoder;
  while (cursor->next_place < place_count(&reader->others) &&
         ((place_at(&reader->others, cursor->next_place)->type != BLOCK_ACCESSES &&
           place_at(&reader->others, cursor->next_place)->type != BLOCK_BURSTS) ||
          place_at(&reader->others, cursor->next_place)->rows == 0))
    cursor->next_place++;
  if (cursor->next_place == place_count(&reader->others))
    return check_totals(cursor);
  const struct block_place *place = place_at(&reader->others, cursor->next_place++);
  struct block block;
  cursor->block_offset = place->offset;
  if (place->type == BLOCK_BURSTS)
    return load_switches(cursor, place) == 0 ? 1 : -1;
  if (reader_block(reader, place, &block, cursor->error) != 0 ||
      block_read_columns(&block, ACCESS_COLUMNS, decoder->columns, &cursor->memory, cursor->error) != 0)
    return -1;
  decoder->rows = block.header.rows;
  decoder->acquired = block.header.first_stamp;
  decoder->last_acquired = block.header.last_stamp;
  const char *wrong = access_decode_begin(decoder);
  if (wrong)
    return error_at(cursor->error, reader->path, place->offset, "%s", wrong);
  cursor->in_block = true;
  return 1;
}

int trace_access_cursor_next(struct trace_access_cursor *cursor, struct access_item *item) {
  while (!cursor->in_block) {
    if (take_switch(cursor, item))
      return 1;
    int got = load_block(cursor);
    if (got <= 0)
      return got;
  }
  if (take_switch(cursor, item))
    return 1;
  const char *wrong = access_decode_next(&cursor->decoder, item);
  if (!wrong && cursor->reader->summary.accesses.in_bursts && item->kind != ACCESS_EVENT && !cursor->in_burst)
    wrong = "an access outside of a burst";
  if (wrong)
    return error_at(cursor->error, cursor->reader->path, cursor->block_offset, "row %" PRIu32 ": %s",
                    cursor->decoder.row, wrong);
  cursor->in_block = cursor->decoder.row < cursor->decoder.rows;
  cursor->read.calls += item->kind == ACCESS_EVENT;
  cursor->read.objects += item->kind == ACCESS_OBJECT;
  cursor->read.other += item->kind == ACCESS_OTHER;
  return 1;
}

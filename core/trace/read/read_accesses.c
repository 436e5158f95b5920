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
};

int trace_reader_requires_accesses(const struct trace_reader *reader, struct error *error) {
  if (reader->summary.accesses.recorded)
    return 0;
  return error_set(
      error, reader->path,
      reader->summary.access_samples.recorded
          ? "has samples of data accesses, which can't stand for all of them: 'heaptape record --accesses' "
            "records all, under Valgrind"
          : "has no data accesses: 'heaptape record --accesses' records them");
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

/* Loads the next block. 1, 0 at the end, -1 on error. */
static int load_block(struct trace_access_cursor *cursor) {
  const struct trace_reader *reader = cursor->reader;
  struct access_decoder *decoder = &cursor->decoder;
  while (cursor->next_place < place_count(&reader->others) &&
         (place_at(&reader->others, cursor->next_place)->type != BLOCK_ACCESSES ||
          place_at(&reader->others, cursor->next_place)->rows == 0))
    cursor->next_place++;
  if (cursor->next_place == place_count(&reader->others))
    return check_totals(cursor);
  const struct block_place *place = place_at(&reader->others, cursor->next_place++);
  struct block block;
  cursor->block_offset = place->offset;
  if (reader_block(reader, place, &block, cursor->error) != 0 ||
      block_read_columns(&block, ACCESS_COLUMNS, decoder->columns, &cursor->memory, cursor->error) != 0)
    return -1;
  decoder->rows = block.header.rows;
  decoder->acquired = block.header.first_stamp;
  decoder->last_acquired = block.header.last_stamp;
  const char *wrong = access_decode_begin(decoder);
  return wrong ? error_at(cursor->error, reader->path, place->offset, "%s", wrong) : 1;
}

int trace_access_cursor_next(struct trace_access_cursor *cursor, struct access_item *item) {
  if (!cursor->in_block) {
    int got = load_block(cursor);
    if (got <= 0)
      return got;
    cursor->in_block = true;
  }
  const char *wrong = access_decode_next(&cursor->decoder, item);
  if (wrong)
    return error_at(cursor->error, cursor->reader->path, cursor->block_offset, "row %" PRIu32 ": %s",
                    cursor->decoder.row, wrong);
  cursor->in_block = cursor->decoder.row < cursor->decoder.rows;
  cursor->read.calls += item->kind == ACCESS_EVENT;
  cursor->read.objects += item->kind == ACCESS_OBJECT;
  cursor->read.other += item->kind == ACCESS_OTHER;
  return 1;
}

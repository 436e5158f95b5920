/* SPDX-License-Identifier: MIT */
#include "core/trace/read/trace_read.h"

#include "core/base/leb.h"
#include "core/base/vector.h"
#include "core/trace/read/reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The state that the rows of one list entry, or of one OS page, share. at: the next of their values in the column,
   where the column is sorted by list entries or OS pages. */
struct access_entry {
  uint64_t object;
  int64_t granule; /* accessed last */
  const uint8_t *at;
  uint32_t rows;
};
struct access_page {
  uint64_t page;
  const uint8_t *at;
  uint32_t rows;
  uint8_t place; /* accessed last */
};

static struct access_entry *entry_at(const struct access_decoder *decoder, uint32_t number) {
  return (struct access_entry *)decoder->entries.bytes + number;
}

static struct access_page *page_at(const struct access_decoder *decoder, uint32_t number) {
  return (struct access_page *)decoder->pages.bytes + number;
}

/* The columns that determine each row's group, in a first pass. */
struct grouping {
  struct recent_list objects;
  struct byte_span far_pages;
  uint32_t entries, pages;
};

static const char *find_entry(struct grouping *grouping, uint8_t code, uint32_t *entry) {
  uint32_t place = (uint32_t)code - ACCESS_CODE_RECENT_OBJECT;
  if (code == ACCESS_CODE_OBJECT)
    recent_add(&grouping->objects, grouping->entries++);
  else if (place >= grouping->objects.count)
    return "place beyond the list of objects";
  else
    recent_use(&grouping->objects, place);
  *entry = grouping->objects.entries[0];
  return NULL;
}

static const char *find_page(struct grouping *grouping, uint8_t code, uint32_t *page) {
  uint64_t far = 0;
  if (code == ACCESS_CODE_PAGE) {
    *page = grouping->pages++;
    return NULL;
  }
  if (code == ACCESS_CODE_FAR_PAGE && !leb_get(&grouping->far_pages.at, grouping->far_pages.end, &far))
    return "the column of far OS pages is too short or has a bad number";
  if (far >= TRACE_MAX_ROWS || code - ACCESS_CODE_KNOWN_PAGE + far >= grouping->pages)
    return "OS page that the block does not have";
  *page = code - ACCESS_CODE_KNOWN_PAGE + (uint32_t)far;
  return NULL;
}

static bool is_other(uint8_t code) {
  return code == ACCESS_CODE_PAGE || code >= ACCESS_CODE_KNOWN_PAGE;
}

static const char *find_group(struct grouping *grouping, uint8_t code, uint32_t *group) {
  if (code <= ACCESS_CODE_ACQUIRED)
    return NULL;
  if (is_other(code))
    return find_page(grouping, code, group);
  if (code == ACCESS_CODE_OBJECT || code >= ACCESS_CODE_RECENT_OBJECT)
    return find_entry(grouping, code, group);
  return "unknown code";
}

/* Makes room for count items of that size, all zero. */
static void *zeroed(struct buffer *buffer, size_t count, size_t bytes) {
  buffer->used = 0;
  void *memory = buffer_reserve(buffer, count * bytes + 1);
  if (memory)
    memset(memory, 0, count * bytes);
  return memory;
}

static const char *find_groups(struct access_decoder *decoder) {
  struct grouping grouping = {.far_pages = decoder->columns[ACCESS_COLUMN_FAR_PAGE]};
  const uint8_t *codes = decoder->columns[ACCESS_COLUMN_WHAT].at;
  uint32_t *groups = zeroed(&decoder->groups, decoder->rows, sizeof *groups);
  if (!groups)
    return "out of memory";
  for (uint32_t row = 0; row < decoder->rows; row++) {
    const char *wrong = find_group(&grouping, codes[row], &groups[row]);
    if (wrong)
      return wrong;
  }
  decoder->columns[ACCESS_COLUMN_FAR_PAGE] = grouping.far_pages;
  decoder->entry_limit = grouping.entries;
  decoder->page_limit = grouping.pages;
  return zeroed(&decoder->entries, grouping.entries, sizeof(struct access_entry)) &&
                 zeroed(&decoder->pages, grouping.pages, sizeof(struct access_page))
             ? NULL
             : "out of memory";
}

/* Skips count numbers. False: there are fewer. */
static bool skip_leb(struct byte_span *span, uint32_t count) {
  for (; count > 0 && span->at < span->end; span->at++)
    count -= *span->at < 0x80;
  return count == 0;
}

/* Finds where each list entry's offsets and each OS page's steps begin, in the columns that are sorted by these. */
static const char *place_groups(struct access_decoder *decoder) {
  const uint8_t *codes = decoder->columns[ACCESS_COLUMN_WHAT].at;
  const uint32_t *groups = (const uint32_t *)decoder->groups.bytes;
  struct byte_span *offsets = &decoder->columns[ACCESS_COLUMN_OFFSET];
  struct byte_span *steps = &decoder->columns[ACCESS_COLUMN_STEP];
  for (uint32_t row = 0; row < decoder->rows; row++)
    if (is_other(codes[row]))
      page_at(decoder, groups[row])->rows++;
    else if (codes[row] > ACCESS_CODE_ACQUIRED)
      entry_at(decoder, groups[row])->rows++;
  for (uint32_t entry = 0; entry < decoder->entry_limit; entry++) {
    entry_at(decoder, entry)->at = offsets->at;
    if (!skip_leb(offsets, entry_at(decoder, entry)->rows))
      return "the column of offsets is too short or has a bad number";
  }
  for (uint32_t page = 0; page < decoder->page_limit; page++) {
    page_at(decoder, page)->at = steps->at;
    if ((size_t)(steps->end - steps->at) < page_at(decoder, page)->rows)
      return "the column of places in OS pages is too short";
    steps->at += page_at(decoder, page)->rows;
  }
  return NULL;
}

const char *access_decode_begin(struct access_decoder *decoder) {
  decoder->row = 0;
  decoder->stack = decoder->page = 0;
  if (decoder->last_acquired < decoder->acquired || decoder->last_acquired - decoder->acquired > decoder->rows)
    return "more calls that acquired than rows";
  if ((size_t)(decoder->columns[ACCESS_COLUMN_WHAT].end - decoder->columns[ACCESS_COLUMN_WHAT].at) != decoder->rows)
    return "the column of codes has another length than the block has rows";
  const char *wrong = find_groups(decoder);
  return wrong ? wrong : place_groups(decoder);
}

static bool get_leb(struct access_decoder *decoder, enum access_column column, uint64_t *value) {
  struct byte_span *span = &decoder->columns[column];
  return leb_get(&span->at, span->end, value);
}

static const char *decode_call(struct access_decoder *decoder, uint8_t code, struct access_item *item) {
  uint64_t thread, difference;
  if (!get_leb(decoder, ACCESS_COLUMN_THREAD, &thread) || !get_leb(decoder, ACCESS_COLUMN_STACK, &difference))
    return "the column of threads or stack pointers is too short or has a bad number";
  decoder->stack += (uint64_t)unzigzag(difference);
  if (thread >= TRACE_MAX_THREADS || decoder->stack >= ACCESS_STACK_POINTERS)
    return "thread number or stack pointer out of range";
  *item = (struct access_item){.kind = ACCESS_EVENT,
                               .thread = (uint32_t)thread,
                               .acquires = code == ACCESS_CODE_ACQUIRED,
                               .stack_pointer = decoder->stack << 3};
  decoder->acquired += item->acquires;
  return NULL;
}

static const char *decode_object(struct access_decoder *decoder, uint8_t code, uint32_t group,
                                 struct access_item *item) {
  struct access_entry *entry = entry_at(decoder, group);
  uint64_t number;
  if (code == ACCESS_CODE_OBJECT) {
    if (!get_leb(decoder, ACCESS_COLUMN_OBJECT, &number))
      return "the column of objects is too short or has a bad number";
    if (number == 0 || number > decoder->acquired)
      return "object that no call before has acquired";
    entry->object = decoder->acquired - number;
  }
  if (!leb_get(&entry->at, decoder->columns[ACCESS_COLUMN_OFFSET].end, &number))
    return "the column of offsets is too short or has a bad number";
  uint64_t granule = (uint64_t)entry->granule + (uint64_t)unzigzag(number);
  if (granule + (uint64_t)ACCESS_OBJECT_GRANULES >= 2 * (uint64_t)ACCESS_OBJECT_GRANULES)
    return "granule of an object out of range";
  entry->granule = (int64_t)granule;
  *item = (struct access_item){.kind = ACCESS_OBJECT, .object = entry->object, .granule = entry->granule};
  return NULL;
}

static const char *get_page(struct access_decoder *decoder, struct access_page *page) {
  uint64_t difference;
  if (!get_leb(decoder, ACCESS_COLUMN_PAGE, &difference))
    return "the column of OS pages is too short or has a bad number";
  decoder->page += (uint64_t)unzigzag(difference);
  page->page = decoder->page;
  return page->page < ACCESS_PAGES ? NULL : "number of an OS page out of range";
}

static const char *decode_other(struct access_decoder *decoder, uint8_t code, uint32_t group,
                                struct access_item *item) {
  struct access_page *page = page_at(decoder, group);
  const char *wrong = code == ACCESS_CODE_PAGE ? get_page(decoder, page) : NULL;
  if (wrong)
    return wrong;
  page->place = (uint8_t)(page->place + *page->at++);
  *item =
      (struct access_item){.kind = ACCESS_OTHER, .granule = (int64_t)(page->page * ACCESS_PAGE_GRANULES + page->place)};
  return NULL;
}

static const char *check_end(const struct access_decoder *decoder) {
  for (int id = 1; id < ACCESS_COLUMNS; id++)
    if (decoder->columns[id].at != decoder->columns[id].end)
      return "a column has entries left over";
  return decoder->acquired == decoder->last_acquired ? NULL : "its calls that acquired are not those of the header";
}

const char *access_decode_next(struct access_decoder *decoder, struct access_item *item) {
  uint8_t code = *decoder->columns[ACCESS_COLUMN_WHAT].at++;
  uint32_t group = ((const uint32_t *)decoder->groups.bytes)[decoder->row];
  const char *wrong;
  if (code <= ACCESS_CODE_ACQUIRED)
    wrong = decode_call(decoder, code, item);
  else if (is_other(code))
    wrong = decode_other(decoder, code, group, item);
  else
    wrong = decode_object(decoder, code, group, item);
  if (wrong)
    return wrong;
  return ++decoder->row == decoder->rows ? check_end(decoder) : NULL;
}

void access_decoder_free(struct access_decoder *decoder) {
  buffer_free(&decoder->groups);
  buffer_free(&decoder->entries);
  buffer_free(&decoder->pages);
}

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

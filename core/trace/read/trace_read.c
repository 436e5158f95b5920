/* SPDX-License-Identifier: MIT */
#include "core/trace/read/trace_read.h"

#include "core/base/os.h"
#include "core/base/vector.h"
#include "core/trace/layout.h"
#include "core/trace/read/reader.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* Whole numbers of 0 or more; anything else is 0. */
static uint64_t json_count(const json_t *object, const char *key) {
  json_int_t value = json_integer_value(json_object_get(object, key));
  return value > 0 ? (uint64_t)value : 0;
}

static int take_info(struct trace_reader *reader, uint64_t offset, const struct block *block, struct error *error) {
  if (reader->info_json)
    return error_at(error, reader->path, offset, "a second INFO block");
  json_t *info = NULL;
  reader->info_json = block_read_json(block, &info, error);
  if (!reader->info_json)
    return -1;
  json_t *clock = json_object_get(info, "clock");
  if (json_is_object(clock)) {
    reader->summary.clock_hz = json_number_value(json_object_get(clock, "hz"));
    reader->summary.clock_origin_stamp = (uint64_t)json_integer_value(json_object_get(clock, "origin_stamp"));
  } else {
    error_at(error, reader->path, offset, "INFO has no clock");
  }
  json_t *accesses = json_object_get(info, "accesses");
  reader->summary.accesses.recorded = json_is_object(accesses);
  reader->summary.accesses.in_bursts = json_is_object(json_object_get(accesses, "bursts"));
  reader->summary.access_filter_bytes = json_count(accesses, "filter_bytes");
  json_decref(info);
  return error->text[0] ? -1 : 0;
}

static int take_gap(struct trace_reader *reader, uint64_t offset, const struct block *block, struct error *error) {
  json_t *gap = NULL;
  char *text = block_read_json(block, &gap, error);
  if (!text)
    return -1;
  json_int_t dropped = json_integer_value(json_object_get(gap, "dropped"));
  if (dropped < 0 || block->header.rows || (uint64_t)dropped > INT64_MAX - reader->summary.dropped)
    error_at(error, reader->path, offset, "impossible GAP");
  else
    reader->summary.dropped += (uint64_t)dropped;
  json_decref(gap);
  free(text);
  return error->text[0] ? -1 : 0;
}

static void take_access_totals(struct trace_access_totals *totals, const json_t *footer) {
  const json_t *accesses = json_object_get(footer, "accesses");
  totals->recorded |= json_is_object(accesses);
  totals->calls = json_count(accesses, "calls");
  totals->objects = json_count(accesses, "objects");
  totals->other = json_count(accesses, "other");
  totals->lost = json_count(accesses, "lost");
  for (int total = 0; total < ACCESS_TOTAL_LIMIT; total++) {
    totals->known[total] = json_is_integer(json_object_get(accesses, access_total_names[total]));
    totals->counted[total] = json_count(accesses, access_total_names[total]);
  }
}

/* Checks that the blocks have as many rows and bursts as the footer counts. */
static int check_access_totals(const struct trace_reader *reader, const json_t *counted, uint64_t offset,
                               struct error *error) {
  const struct trace_access_totals *accesses = &reader->summary.accesses;
  uint64_t rows = accesses->calls + accesses->objects + accesses->other;
  uint64_t bursts = (accesses->switches + 1) / 2;
  if (rows != reader->summary.access_rows)
    return error_at(error, reader->path, offset,
                    "footer counts %" PRIu64 " rows of data accesses, blocks hold %" PRIu64, rows,
                    reader->summary.access_rows);
  if (accesses->in_bursts && json_count(counted, "bursts") != bursts)
    return error_at(error, reader->path, offset, "footer counts %" PRIu64 " bursts, blocks hold %" PRIu64,
                    json_count(counted, "bursts"), bursts);
  return 0;
}

static int take_footer(struct trace_reader *reader, uint64_t offset, const struct block *block, struct error *error) {
  json_t *footer = NULL;
  reader->footer_json = block_read_json(block, &footer, error);
  if (!reader->footer_json)
    return -1;
  reader->footer_offset = offset;
  json_t *hz = json_object_get(footer, "clock_hz");
  if (json_is_number(hz))
    reader->summary.clock_hz = json_number_value(hz);
  uint64_t events = (uint64_t)json_integer_value(json_object_get(footer, "events"));
  uint64_t dropped = (uint64_t)json_integer_value(json_object_get(footer, "dropped"));
  take_access_totals(&reader->summary.accesses, footer);
  int result = check_access_totals(reader, json_object_get(footer, "accesses"), offset, error);
  json_decref(footer);
  if (result == 0 && (events != reader->summary.events || dropped != reader->summary.dropped))
    return error_at(error, reader->path, offset,
                    "footer counts %" PRIu64 " events and %" PRIu64 " dropped, blocks hold %" PRIu64 " and %" PRIu64,
                    events, dropped, reader->summary.events, reader->summary.dropped);
  return result;
}

static void count_events(struct trace_summary *summary, const struct block *block, struct block_place *place) {
  const struct block_header *header = &block->header;
  if (summary->events == 0 || header->first_stamp < summary->first_stamp)
    summary->first_stamp = header->first_stamp;
  if (header->last_stamp > summary->last_stamp)
    summary->last_stamp = header->last_stamp;
  summary->events += header->rows;
  for (int i = 0; i < header->columns; i++)
    if (block->directory[i].id < TRACE_MAX_COLUMNS && block->directory[i].raw_bytes)
      summary->columns |= 1ull << block->directory[i].id;
  for (int i = 0; i < header->columns; i++)
    if (block->directory[i].id < 32 && block->directory[i].raw_bytes)
      place->columns |= 1u << block->directory[i].id;
}

/* Objects are numbered over all blocks, so each block must continue where the one before ended. */
static int take_accesses(struct trace_reader *reader, uint64_t offset, const struct block_header *header,
                         struct error *error) {
  if (header->first_stamp != reader->acquired_in_accesses || header->last_stamp < header->first_stamp)
    return error_at(error, reader->path, offset, "ACCESSES block does not follow the one before");
  reader->acquired_in_accesses = header->last_stamp;
  reader->summary.accesses.recorded = true;
  reader->summary.access_rows += header->rows;
  reader->summary.access_bytes += sizeof *header + header->payload_bytes;
  return 0;
}

static int take_switches(struct trace_reader *reader, uint64_t offset, const struct block_header *header,
                         struct error *error) {
  struct trace_access_totals *accesses = &reader->summary.accesses;
  if (header->first_stamp != accesses->switches || header->last_stamp != accesses->switches + header->rows)
    return error_at(error, reader->path, offset, "BURSTS block does not follow the one before");
  accesses->in_bursts = true;
  accesses->switches = header->last_stamp;
  return 0;
}

static int take_block(struct trace_reader *reader, uint64_t offset, const struct block *block, struct error *error) {
  const struct block_header *header = &block->header;
  struct block_place place = {.offset = offset,
                              .first_stamp = header->first_stamp,
                              .last_stamp = header->last_stamp,
                              .thread = header->thread,
                              .rows = header->rows,
                              .sequence = header->sequence,
                              .stack_nodes = reader->summary.stack_nodes,
                              .type = header->type};
  struct buffer *list = &reader->others;
  if (!reader->info_json && header->type != BLOCK_INFO)
    return error_at(error, reader->path, offset, "the first block is not INFO");
  switch (header->type) {
  case BLOCK_INFO:
    return take_info(reader, offset, block, error);
  case BLOCK_GAP:
    if (take_gap(reader, offset, block, error) != 0)
      return -1;
    list = &reader->places;
    break;
  case BLOCK_EVENTS:
    if (header->rows == 0 || header->steps < header->rows)
      return error_at(error, reader->path, offset, "EVENTS block without rows, or with fewer steps than rows");
    count_events(&reader->summary, block, &place);
    list = &reader->places;
    break;
  case BLOCK_STACKS:
    if (header->rows > TRACE_MAX_STACK_NODES - reader->summary.stack_nodes)
      return error_at(error, reader->path, offset, "more stack nodes than a trace can have");
    reader->summary.stack_nodes += header->rows;
    break;
  case BLOCK_ACCESSES:
    if (take_accesses(reader, offset, header, error) != 0)
      return -1;
    break;
  case BLOCK_BURSTS:
    if (take_switches(reader, offset, header, error) != 0)
      return -1;
    break;
  case BLOCK_SAMPLES:
  case BLOCK_TOUCHED:
  case BLOCK_MODULES:
  case BLOCK_MARKS:
  case BLOCK_THREADS:
    break;
  case BLOCK_FOOTER:
    return take_footer(reader, offset, block, error);
  default:
    if (header->flags & BLOCK_CRITICAL)
      return error_at(error, reader->path, offset, "block type %d must be understood and is not known", header->type);
    return 0;
  }
  buffer_append(list, &place, sizeof place);
  return list->failed ? error_set(error, reader->path, "out of memory") : 0;
}

static int compare_places(const void *left, const void *right) {
  const struct block_place *a = left, *b = right;
  return COMPARE(a->thread, b->thread) ?: COMPARE(a->offset, b->offset);
}

/* Sorts the blocks by thread and checks that no thread lacks a block in the middle. */
static int order_places(struct trace_reader *reader, struct error *error) {
  size_t count = place_count(&reader->places);
  if (count == 0)
    return 0;
  qsort(reader->places.bytes, count, sizeof(struct block_place), compare_places);
  for (size_t i = 0; i < count; i++) {
    const struct block_place *place = place_at(&reader->places, i);
    bool first = i == 0 || place[-1].thread != place->thread;
    if (place->sequence != (first ? 0 : place[-1].sequence + 1))
      return error_at(error, reader->path, place->offset, "block %" PRIu32 " of thread %" PRIu32 " is out of sequence",
                      place->sequence, place->thread);
  }
  const struct block_place *last = place_at(&reader->places, count - 1);
  reader->summary.threads = last->thread + 1;
  if (last->thread >= TRACE_FREE_THREADS && last->thread >= reader->summary.blocks)
    return error_at(error, reader->path, last->offset, "thread number %" PRIu32 " is higher than the file has blocks",
                    last->thread);
  return 0;
}

static int check_trailer(struct trace_reader *reader, uint64_t offset, struct error *error) {
  struct file_trailer trailer;
  uint64_t left = reader->summary.file_bytes - offset;
  if (left < sizeof trailer) {
    reader->summary.truncated = true;
    return 0;
  }
  if (os_pread_all(reader->source.fd, &trailer, sizeof trailer, offset) != 0)
    return error_errno(error, reader->path, "can't read");
  if (memcmp(trailer.magic, TRACE_END_MAGIC, sizeof trailer.magic) != 0 ||
      trailer.footer_offset != reader->footer_offset)
    return error_at(error, reader->path, offset, "bad trailer");
  if (left > sizeof trailer)
    return error_at(error, reader->path, offset + sizeof trailer, "something follows the trailer");
  return 0;
}

static int walk_blocks(struct trace_reader *reader, struct error *error) {
  struct trace_summary *summary = &reader->summary;
  uint64_t offset = sizeof(struct file_header);
  while (!reader->footer_json) {
    struct block block;
    int got = block_read_head(&reader->source, offset, &block, error);
    if (got < 0)
      return -1;
    if (got == 0) {
      summary->truncated = true;
      break;
    }
    if (take_block(reader, offset, &block, error) != 0)
      return -1;
    summary->blocks++;
    offset += sizeof block.header + block.header.payload_bytes;
  }
  summary->truncated_at = offset;
  if (!reader->info_json)
    return error_at(error, reader->path, offset, "truncated before the end of its INFO block: nothing to read");
  if (reader->footer_json && check_trailer(reader, offset, error) != 0)
    return -1;
  return order_places(reader, error);
}

static int open_input(struct trace_reader *reader, struct error *error) {
  const char *path = reader->path;
  struct stat status;
  reader->source.fd = open(path, O_RDONLY | O_CLOEXEC);
  if (reader->source.fd < 0 || fstat(reader->source.fd, &status) != 0)
    return error_errno(error, path, "can't open");
  if (!S_ISREG(status.st_mode))
    return error_set(error, path, "not a regular file");
  reader->summary.file_bytes = reader->source.file_bytes = (uint64_t)status.st_size;
  struct file_header header;
  if (status.st_size < (off_t)sizeof header)
    return error_set(error, path, "not a heaptape trace (%jd bytes are too few)", (intmax_t)status.st_size);
  if (os_pread_all(reader->source.fd, &header, sizeof header, 0) != 0)
    return error_errno(error, path, "can't read");
  if (memcmp(header.magic, TRACE_MAGIC, sizeof header.magic) != 0)
    return error_at(error, path, 0, "not a heaptape trace");
  if (header.version != TRACE_VERSION)
    return error_at(error, path, 8, "trace version %d; this reader knows version %d", header.version, TRACE_VERSION);
  if (header.flags || header.crc32 != crc32(0, (const Bytef *)&header, offsetof(struct file_header, crc32)))
    return error_at(error, path, 10, "file header has unknown flags or fails its checksum");
  return 0;
}

int trace_reader_open(struct trace_reader **out, const char *path, struct error *error) {
  *out = NULL;
  struct trace_reader *reader = calloc(1, sizeof *reader);
  if (!reader || !(reader->path = strdup(path))) {
    free(reader);
    return error_set(error, path, "out of memory");
  }
  reader->source.path = reader->path;
  reader->source.fd = -1;
  if (open_input(reader, error) != 0 || walk_blocks(reader, error) != 0) {
    trace_reader_close(reader);
    return -1;
  }
  reader->summary.info_json = reader->info_json;
  reader->summary.footer_json = reader->footer_json ? reader->footer_json : "{}";
  *out = reader;
  return 0;
}

void trace_reader_close(struct trace_reader *reader) {
  if (!reader)
    return;
  os_close(reader->source.fd);
  buffer_free(&reader->places);
  buffer_free(&reader->others);
  free(reader->info_json);
  free(reader->footer_json);
  free(reader->path);
  free(reader);
}

const struct trace_summary *trace_reader_summary(const struct trace_reader *reader) {
  return &reader->summary;
}
const char *trace_reader_path(const struct trace_reader *reader) {
  return reader->path;
}

void trace_reader_skip(struct trace_reader *reader, uint64_t offset, uint64_t *passed) {
  size_t kept = 0, count = place_count(&reader->places);
  for (size_t i = 0; i < count; i++) {
    const struct block_place *place = place_at(&reader->places, i);
    if (place->offset < offset)
      passed[place->thread] += place->type == BLOCK_EVENTS ? place->rows : 0;
    else
      *place_at(&reader->places, kept++) = *place;
  }
  reader->places.used = kept * sizeof(struct block_place);
}

uint64_t trace_reader_thread_events(const struct trace_reader *reader, uint32_t thread) {
  uint64_t events = 0;
  size_t count = place_count(&reader->places);
  for (size_t i = reader_first_place(reader, thread); i < count && place_at(&reader->places, i)->thread == thread; i++)
    events += place_at(&reader->places, i)->rows;
  return events;
}

uint64_t trace_reader_thread_first_stamp(const struct trace_reader *reader, uint32_t thread) {
  size_t count = place_count(&reader->places);
  for (size_t i = reader_first_place(reader, thread); i < count && place_at(&reader->places, i)->thread == thread; i++)
    if (place_at(&reader->places, i)->type == BLOCK_EVENTS)
      return place_at(&reader->places, i)->first_stamp;
  return UINT64_MAX;
}

struct trace_cursor {
  struct trace_reader *reader;
  struct error *error;
  uint32_t thread;
  size_t next_place;
  uint64_t block_offset;
  uint64_t last_stamp; /* of the block before: stamps of a thread must not decrease */
  bool in_block;
  const char *wrong; /* what is wrong with the next row; NULL: nothing known */
  struct block_memory memory;
  struct block_decoder decoder;
};

int trace_cursor_open(struct trace_cursor **out, struct trace_reader *reader, uint32_t thread, struct error *error) {
  struct trace_cursor *cursor = calloc(1, sizeof *cursor);
  *out = cursor;
  if (!cursor)
    return error_set(error, reader->path, "out of memory");
  cursor->reader = reader;
  cursor->error = error;
  cursor->thread = thread;
  cursor->next_place = reader_first_place(reader, thread);
  return 0;
}

static void cursor_drop_memory(struct trace_cursor *cursor) {
  block_memory_free(&cursor->memory);
  block_decoder_free(&cursor->decoder);
}

void trace_cursor_close(struct trace_cursor *cursor) {
  if (!cursor)
    return;
  cursor_drop_memory(cursor);
  free(cursor);
}

int reader_begin_events(const struct trace_reader *reader, const struct block_place *place,
                        struct block_decoder *decoder, struct block_memory *memory, struct error *error) {
  struct block block;
  if (reader_block(reader, place, &block, error) != 0 ||
      block_read_columns(&block, EVENT_COLUMNS, decoder->columns, memory, error) != 0)
    return -1;
  decoder->rows = block.header.rows;
  decoder->steps = block.header.steps;
  decoder->stamp = block.header.first_stamp;
  decoder->last_stamp = block.header.last_stamp;
  decoder->stack_nodes = place->stack_nodes;
  decoder->release_shift = decoder->acquire_shift = 0;
  for (int i = 0; i < block.header.columns; i++) {
    if (block.directory[i].id == COLUMN_RELEASE_ADDRESS)
      decoder->release_shift = block.directory[i].shift;
    if (block.directory[i].id == COLUMN_ACQUIRE_ADDRESS || block.directory[i].id == COLUMN_PLACES)
      decoder->acquire_shift = block.directory[i].shift;
  }
  const char *wrong = block_decode_begin(decoder);
  return wrong ? error_at(error, reader->path, place->offset, "%s", wrong) : 0;
}

/* Loads the thread's next EVENTS block. Returns 1, 0 at the end, -1 on error. */
static int cursor_load(struct trace_cursor *cursor) {
  struct trace_reader *reader = cursor->reader;
  const struct block_place *place;
  do {
    if (cursor->next_place >= place_count(&reader->places) ||
        (place = place_at(&reader->places, cursor->next_place))->thread != cursor->thread) {
      cursor_drop_memory(cursor);
      return 0;
    }
    cursor->next_place++;
  } while (place->type != BLOCK_EVENTS);
  cursor->block_offset = place->offset;
  if (reader_begin_events(reader, place, &cursor->decoder, &cursor->memory, cursor->error) != 0)
    return -1;
  if (place->first_stamp < cursor->last_stamp)
    return error_at(cursor->error, reader->path, place->offset, "stamps go back between blocks of a thread");
  cursor->last_stamp = cursor->decoder.last_stamp;
  return 1;
}

int trace_cursor_read(struct trace_cursor *cursor, struct trace_event *events, int count) {
  if (!cursor->in_block) {
    int got = cursor_load(cursor);
    if (got <= 0)
      return got;
    cursor->in_block = true;
  }
  struct block_decoder *decoder = &cursor->decoder;
  uint32_t read = cursor->wrong ? 0 : block_decode_rows(decoder, events, (uint32_t)count, &cursor->wrong);
  if (cursor->wrong && read == 0)
    return error_at(cursor->error, cursor->reader->path, cursor->block_offset, "row %" PRIu32 ": %s", decoder->row,
                    cursor->wrong);
  cursor->in_block = cursor->wrong || decoder->row < decoder->rows;
  return (int)read;
}

int trace_cursor_next(struct trace_cursor *cursor, struct trace_event *event) {
  return trace_cursor_read(cursor, event, 1);
}

double trace_stamp_ns(const struct trace_summary *summary, uint64_t stamp) {
  if (summary->clock_hz <= 0 || stamp < summary->clock_origin_stamp)
    return 0;
  return (double)(stamp - summary->clock_origin_stamp) * 1e9 / summary->clock_hz;
}

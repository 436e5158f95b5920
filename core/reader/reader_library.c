/* SPDX-License-Identifier: MIT */
#include "core/reader/reader_library.h"

#include "core/base/json.h"
#include "core/base/leb.h"
#include "core/trace/read/reader.h"
#include "core/trace/read/trace_read.h"

#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

struct event_block {
  struct block_place place;
  uint64_t first_event;
  uint64_t stamp; /* the last one of the thread before it */
};

struct heaptape_trace {
  struct trace_reader *reader;
  struct event_block *blocks; /* EVENTS, in file order */
  uint64_t block_count, samples;
};

EXPORTED uint32_t heaptape_reader_abi(void) {
  return READER_ABI;
}

static int compare_blocks(const void *left, const void *right) {
  const struct event_block *a = left, *b = right;
  return COMPARE(a->place.offset, b->place.offset);
}

/* The reader's blocks are sorted by thread. */
static bool list_blocks(struct heaptape_trace *trace) {
  const struct buffer *places = &trace->reader->places;
  size_t count = place_count(places);
  uint64_t first_event = 0, stamp = 0;
  trace->blocks = calloc(count + 1, sizeof *trace->blocks);
  for (size_t i = 0; trace->blocks && i < count; i++) {
    const struct block_place *place = place_at(places, i);
    if (i == 0 || place[-1].thread != place->thread)
      first_event = stamp = 0;
    if (place->type == BLOCK_EVENTS) {
      trace->blocks[trace->block_count++] = (struct event_block){*place, first_event, stamp};
      stamp = place->last_stamp;
    }
    first_event += place->rows;
  }
  if (trace->blocks)
    qsort(trace->blocks, trace->block_count, sizeof *trace->blocks, compare_blocks);
  for (size_t i = 0; i < place_count(&trace->reader->others); i++)
    if (place_at(&trace->reader->others, i)->type == BLOCK_SAMPLES)
      trace->samples += place_at(&trace->reader->others, i)->rows;
  return trace->blocks;
}

EXPORTED struct heaptape_trace *heaptape_trace_open(const char *path, struct error *error) {
  struct heaptape_trace *trace = calloc(1, sizeof *trace);
  if (!trace)
    error_set(error, path, "out of memory");
  else if (trace_reader_open(&trace->reader, path, error) == 0 && !list_blocks(trace))
    error_set(error, path, "out of memory");
  if (!error->text[0])
    return trace;
  heaptape_trace_close(trace);
  return NULL;
}

EXPORTED void heaptape_trace_close(struct heaptape_trace *trace) {
  if (!trace)
    return;
  trace_reader_close(trace->reader);
  free(trace->blocks);
  free(trace);
}

EXPORTED void heaptape_trace_summary(const struct heaptape_trace *trace, struct heaptape_summary *summary) {
  const struct trace_summary *found = trace_reader_summary(trace->reader);
  *summary = (struct heaptape_summary){.info_json = found->info_json,
                                       .footer_json = found->truncated ? NULL : found->footer_json,
                                       .events = found->events,
                                       .dropped = found->dropped,
                                       .event_blocks = trace->block_count,
                                       .samples = trace->samples,
                                       .access_rows = found->access_rows,
                                       .switches = found->accesses.switches,
                                       .first_stamp = found->first_stamp,
                                       .last_stamp = found->last_stamp,
                                       .threads = found->threads,
                                       .stack_nodes = found->stack_nodes,
                                       .in_bursts = found->accesses.in_bursts};
}

EXPORTED void heaptape_trace_block(const struct heaptape_trace *trace, uint64_t number, struct heaptape_block *block) {
  const struct event_block *found = &trace->blocks[number];
  *block = (struct heaptape_block){found->first_event, found->place.thread, found->place.rows, found->place.columns};
}

/* Places of the bits of a row, in the order of struct heaptape_events. */
enum row_bit {
  ROW_FAILED = 1,
  ROW_NULL_IN = 2,
  ROW_RELEASES = 4,
  ROW_HAS_SIZE = 8,
  ROW_HAS_PARAM = 16,
  ROW_TAKES = 32,
  ROW_ACQUIRES = 64,
  ROW_STAMPED = 128
};

static uint8_t row_bits(const struct trace_event *event) {
  uint8_t traits = trace_event_traits(event);
  bool takes = traits & EVENT_TAKES, stamped = !takes || (traits & EVENT_TWO_STEPS) == EVENT_TWO_STEPS;
  return (uint8_t)((event->call & CALL_NULL_OUT ? ROW_FAILED : 0) | (event->call & CALL_NULL_IN ? ROW_NULL_IN : 0) |
                   (traits & EVENT_RELEASES ? ROW_RELEASES : 0) | (traits & CALL_HAS_SIZE ? ROW_HAS_SIZE : 0) |
                   (traits & CALL_HAS_PARAM ? ROW_HAS_PARAM : 0) | (takes ? ROW_TAKES : 0) |
                   (traits & EVENT_ACQUIRES ? ROW_ACQUIRES : 0) | (stamped ? ROW_STAMPED : 0));
}

/* A matrix of 8 x 8 bits, a row in each byte, with rows and columns exchanged (Warren, Hacker's Delight, 7-3). */
static uint64_t transposed(uint64_t bits) {
  uint64_t swap = (bits ^ bits >> 7) & 0x00aa00aa00aa00aau;
  bits ^= swap ^ swap << 7;
  swap = (bits ^ bits >> 14) & 0x0000cccc0000ccccu;
  bits ^= swap ^ swap << 14;
  swap = (bits ^ bits >> 28) & 0x00000000f0f0f0f0u;
  return bits ^ swap ^ swap << 28;
}

enum { ROWS_AT_ONCE = 64 };

/* Writes count rows from row first, a multiple of ROWS_AT_ONCE. */
static void put_rows(const struct heaptape_events *to, uint32_t first, const struct trace_event *events,
                     uint32_t count) {
  uint8_t bits[ROWS_AT_ONCE] = {0};
  for (uint32_t i = 0; i < count; i++) {
    const struct trace_event *event = &events[i];
    uint32_t row = first + i;
    bits[i] = row_bits(event);
    to->call[row] = event->call;
    to->request_bytes[row] = trace_event_request_bytes(event);
    to->size[row] = event->size_bytes;
    to->param[row] = event->param;
    to->released[row] = event->released;
    to->acquired[row] = event->acquired;
    to->release_stamp[row] = event->release_stamp;
    to->acquire_stamp[row] = event->acquire_stamp;
  }
  uint8_t *const columns[] = {to->failed,    to->null,  to->releases, to->has_size,
                              to->has_param, to->takes, to->acquires, to->acquire_stamped};
  for (uint32_t i = 0; i < count; i += 8) {
    uint64_t eight;
    memcpy(&eight, &bits[i], sizeof eight);
    eight = transposed(eight);
    for (int column = 0; column < 8; column++)
      columns[column][(first + i) / 8] = (uint8_t)(eight >> 8 * column);
  }
}

static void put_bit(uint8_t *bits, uint32_t row, bool bit) {
  bits[row / 8] = (uint8_t)((row % 8 ? bits[row / 8] : 0) | bit << row % 8);
}

/* The columns that most blocks lack. */
static void put_optional(const struct heaptape_events *to, uint32_t first, const struct trace_event *events,
                         uint32_t count) {
  for (uint32_t i = 0; to->touched_os_pages && i < count; i++) {
    to->touched_os_pages[first + i] = events[i].touched_os_pages - 1;
    put_bit(to->has_touched, first + i, events[i].touched_os_pages);
  }
  for (uint32_t i = 0; to->latency && i < count; i++) {
    to->latency[first + i] = events[i].latency - 1;
    put_bit(to->has_latency, first + i, events[i].latency);
  }
  for (uint32_t i = 0; to->usable_bytes && i < count; i++) {
    to->usable_bytes[first + i] = trace_event_usable_bytes(&events[i]);
    put_bit(to->has_usable, first + i, events[i].slack_bytes);
  }
  for (uint32_t i = 0; to->stack && i < count; i++) {
    to->stack[first + i] = events[i].stack;
    put_bit(to->has_stack, first + i, events[i].stack);
  }
}

/* Returns NULL, or what is wrong with row decoder->row. */
static const char *decode_block(struct block_decoder *decoder, const struct heaptape_events *to) {
  struct trace_event events[ROWS_AT_ONCE];
  const char *wrong = NULL;
  while (decoder->row < decoder->rows && !wrong) {
    uint32_t first = decoder->row, count = block_decode_rows(decoder, events, ROWS_AT_ONCE, &wrong);
    put_rows(to, first, events, count);
    put_optional(to, first, events, count);
  }
  return wrong;
}

EXPORTED int heaptape_trace_events(const struct heaptape_trace *trace, uint64_t number,
                                   const struct heaptape_events *columns, struct error *error) {
  struct block_memory memory = {0};
  const struct block_place *place = &trace->blocks[number].place;
  struct block_decoder *decoder = calloc(1, sizeof *decoder);
  if (!decoder) {
    error_set(error, trace->reader->path, "out of memory");
  } else if (place->first_stamp < trace->blocks[number].stamp) {
    error_at(error, trace->reader->path, place->offset, "stamps go back between blocks of a thread");
  } else if (reader_begin_events(trace->reader, place, decoder, &memory, error) == 0) {
    const char *wrong = decode_block(decoder, columns);
    if (wrong)
      error_at(error, trace->reader->path, place->offset, "row %u: %s", decoder->row, wrong);
  }
  block_memory_free(&memory);
  if (decoder)
    block_decoder_free(decoder);
  free(decoder);
  return error->text[0] ? -1 : 0;
}

struct sample_columns {
  uint64_t *const *columns;
  uint64_t row;
};

static int put_sample(void *context, const struct trace_sample *sample) {
  struct sample_columns *to = context;
  for (size_t column = 0; column < SAMPLE_COLUMNS; column++)
    to->columns[column][to->row] = sample->quantities[column];
  to->row++;
  return 0;
}

EXPORTED const char *heaptape_sample_names(void) {
#define NAME(name) #name ","
  return TRACE_SAMPLE_QUANTITIES(NAME);
#undef NAME
}

EXPORTED int heaptape_trace_samples(const struct heaptape_trace *trace, uint64_t *const *columns, struct error *error) {
  struct sample_columns to = {columns, 0};
  return trace_reader_samples(trace->reader, put_sample, &to, error);
}

struct stack_columns {
  uint32_t *parent, *modules;
  uint64_t *instruction;
};

static int put_node(void *context, const struct trace_stack_node *node) {
  const struct stack_columns *to = context;
  to->parent[node->node - 1] = node->parent;
  to->instruction[node->node - 1] = node->instruction;
  to->modules[node->node - 1] = node->modules;
  return 0;
}

EXPORTED int heaptape_trace_stacks(const struct heaptape_trace *trace, uint32_t *parent, uint64_t *instruction,
                                   uint32_t *modules, struct error *error) {
  struct stack_columns to = {parent, modules, instruction};
  return trace_reader_stacks(trace->reader, put_node, &to, error);
}

static int add_row(json_t *rows, json_t *row) {
  return json_array_append_new(rows, row); /* -1: no memory */
}

static int add_module(void *context, const struct trace_module *module) {
  return add_row(context, json_pack("{s:s, s:s*, s:s*, s:I, s:I, s:I}", "name", module->name, "path", module->path,
                                    "build_id", module->build_id, "start", (json_int_t)module->start, "end",
                                    (json_int_t)module->end, "bias", (json_int_t)module->bias));
}

static int add_mark(void *context, const struct trace_mark *mark) {
  return add_row(context, json_pack("{s:I, s:I, s:I, s:s}", "stamp", (json_int_t)mark->stamp, "thread",
                                    (json_int_t)mark->thread, "events", (json_int_t)mark->events, "text", mark->text));
}

static int add_name(void *context, uint32_t thread, const char *name) {
  return add_row(context, json_pack("{s:I, s:s}", "thread", (json_int_t)thread, "name", name));
}

EXPORTED char *heaptape_trace_rows(const struct heaptape_trace *trace, int type, struct error *error) {
  struct trace_reader *reader = trace->reader;
  json_t *rows = json_array();
  int result = type == BLOCK_MODULES ? trace_reader_modules(reader, add_module, rows, error)
               : type == BLOCK_MARKS ? trace_reader_marks(reader, add_mark, rows, error)
                                     : trace_reader_thread_names(reader, add_name, rows, error);
  char *json = result == 0 ? json_dumps(rows, JSON_COMPACT) : NULL;
  json_decref(rows);
  if (!json)
    error_set(error, reader->path, "out of memory");
  return json;
}

EXPORTED void heaptape_text_free(char *text) {
  free(text);
}

struct switch_rows {
  uint64_t *rows;
  uint64_t count;
};

static int put_switches(const struct block *block, const struct block_place *place, struct block_memory *memory,
                        void *context, struct error *error) {
  struct switch_rows *to = context;
  struct byte_span spans[BURST_COLUMNS];
  uint64_t row = 0, step;
  if (block_read_columns(block, BURST_COLUMNS, spans, memory, error) != 0)
    return -1;
  struct byte_span *steps = &spans[BURST_COLUMN_ROWS];
  for (uint32_t i = 0; i < place->rows; i++) {
    if (!leb_get(&steps->at, steps->end, &step) || __builtin_add_overflow(row, step, &row))
      return error_at(error, block->source->path, block->offset,
                      "the column of bursts is too short or has a bad number");
    to->rows[to->count++] = row;
  }
  if (steps->at != steps->end)
    return error_at(error, block->source->path, block->offset, "the column of bursts has entries left over");
  return 0;
}

EXPORTED int heaptape_trace_switches(const struct heaptape_trace *trace, uint64_t *rows, struct error *error) {
  struct switch_rows to = {rows, 0};
  return reader_visit_blocks(trace->reader, BLOCK_BURSTS, put_switches, &to, error);
}

struct heaptape_accesses {
  struct trace_access_cursor *cursor;
  struct error error;
};

EXPORTED struct heaptape_accesses *heaptape_accesses_open(const struct heaptape_trace *trace, struct error *error) {
  struct heaptape_accesses *accesses = calloc(1, sizeof *accesses);
  if (accesses && trace_access_cursor_open(&accesses->cursor, trace->reader, &accesses->error) == 0)
    return accesses;
  if (accesses)
    *error = accesses->error;
  else
    error_set(error, trace->reader->path, "out of memory");
  free(accesses);
  return NULL;
}

EXPORTED void heaptape_accesses_close(struct heaptape_accesses *accesses) {
  if (!accesses)
    return;
  trace_access_cursor_close(accesses->cursor);
  free(accesses);
}

EXPORTED int64_t heaptape_accesses_read(struct heaptape_accesses *accesses,
                                        const struct heaptape_access_columns *columns, uint64_t count,
                                        struct error *error) {
  struct access_item item;
  uint64_t row = 0;
  while (row < count) {
    int got = trace_access_cursor_next(accesses->cursor, &item);
    if (got < 0) {
      *error = accesses->error;
      return -1;
    }
    if (got == 0)
      break;
    if (item.kind == ACCESS_BURST)
      continue;
    columns->kind[row] = item.kind == ACCESS_EVENT ? 0 : item.kind == ACCESS_OBJECT ? 1 : 2;
    columns->acquires[row] = item.kind == ACCESS_EVENT && item.acquires;
    columns->thread[row] = item.kind == ACCESS_EVENT ? item.thread : 0;
    columns->stack_pointer[row] = item.kind == ACCESS_EVENT ? item.stack_pointer : 0;
    columns->object[row] = item.kind == ACCESS_OBJECT ? item.object : 0;
    columns->granule[row++] = item.kind == ACCESS_EVENT ? 0 : item.granule;
  }
  return (int64_t)row;
}

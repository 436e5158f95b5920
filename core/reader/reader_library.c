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

_Static_assert(sizeof(struct error) == READER_ERROR_BYTES, "errors are passed on whole");

static int pass_on(const struct error *error, char *text) {
  memcpy(text, error->text, READER_ERROR_BYTES);
  return -1;
}

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

EXPORTED struct heaptape_trace *heaptape_trace_open(const char *path, char *text) {
  struct error error = {""};
  struct heaptape_trace *trace = calloc(1, sizeof *trace);
  if (!trace)
    error_set(&error, path, "out of memory");
  else if (trace_reader_open(&trace->reader, path, &error) == 0 && !list_blocks(trace))
    error_set(&error, path, "out of memory");
  if (!error.text[0])
    return trace;
  pass_on(&error, text);
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
  *block = (struct heaptape_block){found->first_event, found->place.thread, found->place.rows};
}

/* The bits of up to 64 rows. */
struct bits {
  uint64_t failed, null, releases, has_size, has_param, takes, acquires, acquire_stamped, has_touched, has_latency,
      has_usable, has_stack;
};

static ALWAYS_INLINE void put_row(const struct heaptape_events *to, uint32_t row, const struct trace_event *event,
                                  struct bits *bits) {
  uint8_t traits = trace_event_traits(event), both = traits & EVENT_TWO_STEPS;
  bool takes = traits & EVENT_TAKES, stamped = !takes || both == EVENT_TWO_STEPS;
  uint64_t bit = 1ull << row % 64;
  to->call[row] = event->call;
  to->request_bytes[row] = trace_event_request_bytes(event);
  to->size[row] = event->size_bytes;
  to->param[row] = event->param;
  to->released[row] = event->released;
  to->acquired[row] = event->acquired;
  to->release_stamp[row] = takes ? event->release_stamp : 0;
  to->acquire_stamp[row] = stamped ? event->acquire_stamp : 0;
  to->latency[row] = event->latency - (event->latency != 0);
  to->usable_bytes[row] = trace_event_usable_bytes(event);
  to->touched_os_pages[row] = event->touched_os_pages - (event->touched_os_pages != 0);
  to->stack[row] = event->stack;
  bits->failed |= event->call & CALL_NULL_OUT ? bit : 0;
  bits->null |= event->call & CALL_NULL_IN ? bit : 0;
  bits->releases |= traits & EVENT_RELEASES ? bit : 0;
  bits->has_size |= traits & CALL_HAS_SIZE ? bit : 0;
  bits->has_param |= traits & CALL_HAS_PARAM ? bit : 0;
  bits->takes |= takes ? bit : 0;
  bits->acquires |= traits & EVENT_ACQUIRES ? bit : 0;
  bits->acquire_stamped |= stamped ? bit : 0;
  bits->has_touched |= event->touched_os_pages ? bit : 0;
  bits->has_latency |= event->latency ? bit : 0;
  bits->has_usable |= event->slack_bytes ? bit : 0;
  bits->has_stack |= event->stack ? bit : 0;
}

static void put_bits(const struct heaptape_events *to, uint32_t word, const struct bits *bits) {
  to->failed[word] = bits->failed;
  to->null[word] = bits->null;
  to->releases[word] = bits->releases;
  to->has_size[word] = bits->has_size;
  to->has_param[word] = bits->has_param;
  to->takes[word] = bits->takes;
  to->acquires[word] = bits->acquires;
  to->acquire_stamped[word] = bits->acquire_stamped;
  to->has_touched[word] = bits->has_touched;
  to->has_latency[word] = bits->has_latency;
  to->has_usable[word] = bits->has_usable;
  to->has_stack[word] = bits->has_stack;
}

/* Returns NULL, or what is wrong with row decoder->row. */
static const char *put_rows(struct block_decoder *decoder, const struct heaptape_events *to) {
  struct trace_event events[64];
  const char *wrong = NULL;
  while (decoder->row < decoder->rows && !wrong) {
    struct bits bits = {0};
    uint32_t first = decoder->row, count = block_decode_rows(decoder, events, 64, &wrong);
    for (uint32_t i = 0; i < count; i++)
      put_row(to, first + i, &events[i], &bits);
    put_bits(to, first / 64, &bits);
  }
  return wrong;
}

EXPORTED int heaptape_trace_events(const struct heaptape_trace *trace, uint64_t number,
                                   const struct heaptape_events *columns, char *text) {
  struct error error = {""};
  struct block_memory memory = {0};
  const struct block_place *place = &trace->blocks[number].place;
  struct block_decoder *decoder = calloc(1, sizeof *decoder);
  if (!decoder) {
    error_set(&error, trace->reader->path, "out of memory");
  } else if (place->first_stamp < trace->blocks[number].stamp) {
    error_at(&error, trace->reader->path, place->offset, "stamps go back between blocks of a thread");
  } else if (reader_begin_events(trace->reader, place, decoder, &memory, &error) == 0) {
    const char *wrong = put_rows(decoder, columns);
    if (wrong)
      error_at(&error, trace->reader->path, place->offset, "row %u: %s", decoder->row, wrong);
  }
  block_memory_free(&memory);
  if (decoder)
    block_decoder_free(decoder);
  free(decoder);
  return error.text[0] ? pass_on(&error, text) : 0;
}

struct sample_columns {
  uint64_t *const *columns;
  uint64_t row;
};

static int put_sample(void *context, const struct trace_sample *sample) {
  struct sample_columns *to = context;
  const uint64_t values[] = {sample->stamp,           sample->rss_anon_bytes, sample->rss_file_bytes,
                             sample->rss_shmem_bytes, sample->vm_size_bytes,  sample->vm_hwm_bytes,
                             sample->minor_faults,    sample->major_faults,   sample->user_ns,
                             sample->system_ns};
  for (size_t column = 0; column < sizeof values / sizeof *values; column++)
    to->columns[column][to->row] = values[column];
  to->row++;
  return 0;
}

EXPORTED int heaptape_trace_samples(const struct heaptape_trace *trace, uint64_t *const columns[10], char *text) {
  struct error error = {""};
  struct sample_columns to = {columns, 0};
  return trace_reader_samples(trace->reader, put_sample, &to, &error) == 0 ? 0 : pass_on(&error, text);
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
                                   uint32_t *modules, char *text) {
  struct error error = {""};
  struct stack_columns to = {parent, modules, instruction};
  return trace_reader_stacks(trace->reader, put_node, &to, &error) == 0 ? 0 : pass_on(&error, text);
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

EXPORTED char *heaptape_trace_rows(const struct heaptape_trace *trace, int type, char *text) {
  struct error error = {""};
  struct trace_reader *reader = trace->reader;
  json_t *rows = json_array();
  int result = type == BLOCK_MODULES ? trace_reader_modules(reader, add_module, rows, &error)
               : type == BLOCK_MARKS ? trace_reader_marks(reader, add_mark, rows, &error)
                                     : trace_reader_thread_names(reader, add_name, rows, &error);
  char *json = result == 0 ? json_dumps(rows, JSON_COMPACT) : NULL;
  json_decref(rows);
  if (!json) {
    error_set(&error, reader->path, "out of memory");
    pass_on(&error, text);
  }
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
  return 0;
}

EXPORTED int heaptape_trace_switches(const struct heaptape_trace *trace, uint64_t *rows, char *text) {
  struct error error = {""};
  struct switch_rows to = {rows, 0};
  int result = reader_visit_blocks(trace->reader, BLOCK_BURSTS, put_switches, &to, &error);
  return result == 0 ? 0 : pass_on(&error, text);
}

struct heaptape_accesses {
  struct trace_access_cursor *cursor;
  struct error error;
};

EXPORTED struct heaptape_accesses *heaptape_accesses_open(const struct heaptape_trace *trace, char *text) {
  struct heaptape_accesses *accesses = calloc(1, sizeof *accesses);
  if (accesses && trace_access_cursor_open(&accesses->cursor, trace->reader, &accesses->error) == 0)
    return accesses;
  struct error error = {""};
  if (!accesses)
    error_set(&error, trace->reader->path, "out of memory");
  pass_on(accesses ? &accesses->error : &error, text);
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
                                        const struct heaptape_access_columns *columns, uint64_t count, char *text) {
  struct access_item item;
  uint64_t row = 0;
  while (row < count) {
    int got = trace_access_cursor_next(accesses->cursor, &item);
    if (got < 0)
      return pass_on(&accesses->error, text);
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

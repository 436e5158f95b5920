/* SPDX-License-Identifier: MIT */
#include "core/trace/write/trace_write.h"

#include "core/base/json.h"
#include "core/base/leb.h"
#include "core/trace/layout.h"
#include "core/trace/write/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_PER_BLOCK = 4096 };

static struct stack_slot *find(const struct stack_table *table, uint32_t parent, uint64_t instruction) {
  uint64_t hash = (instruction ^ (uint64_t)parent << 32) * 0x9e3779b97f4a7c15u;
  uint32_t at = (uint32_t)(hash >> 32) & table->mask;
  while (table->slots[at].node && (table->slots[at].instruction != instruction || table->slots[at].parent != parent))
    at = (at + 1) & table->mask;
  return &table->slots[at];
}

static bool grow(struct stack_table *table) {
  uint32_t old_count = table->slots ? table->mask + 1 : 0, count = old_count ? 2 * old_count : 1024;
  struct stack_slot *slots = calloc(count, sizeof *slots), *old = table->slots;
  if (!slots)
    return false;
  table->slots = slots;
  table->mask = count - 1;
  for (uint32_t i = 0; i < old_count; i++)
    if (old[i].node)
      *find(table, old[i].parent, old[i].instruction) = old[i];
  free(old);
  return true;
}

/* Returns the node's number; *fresh: it was created now. 0: no memory, parent is not a node, or there are
   TRACE_MAX_STACK_NODES. */
static uint32_t stack_table_node(struct stack_table *table, uint32_t parent, uint64_t instruction, bool *fresh) {
  *fresh = false;
  if (parent > table->nodes || ((!table->slots || table->used > table->mask / 2) && !grow(table)))
    return 0;
  struct stack_slot *slot = find(table, parent, instruction);
  if (slot->node || table->nodes == TRACE_MAX_STACK_NODES)
    return slot->node;
  *fresh = true;
  table->used++;
  *slot = (struct stack_slot){instruction, parent, ++table->nodes};
  return slot->node;
}

/* Pairs seen before get new numbers from here on. */
static void stack_table_forget(struct stack_table *table) {
  if (table->slots)
    memset(table->slots, 0, ((size_t)table->mask + 1) * sizeof *table->slots);
  table->used = 0;
}

static void stack_table_free(struct stack_table *table) {
  free(table->slots);
  *table = (struct stack_table){0};
}

uint32_t trace_writer_stack_node(struct trace_writer *writer, uint32_t parent, uint64_t instruction) {
  bool fresh;
  uint32_t node = stack_table_node(&writer->stacks, parent, instruction, &fresh);
  if (!fresh)
    return node;
  buffer_append_leb(&writer->stack_column[0], node - parent);
  buffer_append_leb(&writer->stack_column[1], zigzag((int64_t)(instruction - writer->stack_instruction)));
  writer->stack_instruction = instruction;
  writer->totals.stack_nodes = node;
  if (++writer->stack_count == TRACE_MAX_ROWS)
    flush_annotations(writer);
  return node;
}

void trace_writer_forget_stacks(struct trace_writer *writer) {
  flush_annotations(writer);
  stack_table_forget(&writer->stacks);
}

static int add_row(struct trace_writer *writer, json_t **rows, json_t *row) {
  if (!*rows)
    *rows = json_array();
  if (!row || json_array_append_new(*rows, row) != 0)
    return writer_fail(writer, ENOMEM);
  return json_array_size(*rows) >= ROWS_PER_BLOCK ? flush_annotations(writer) : 0;
}

/* *row is NULL where there is no memory: readers refuse a row that lacks a key. */
static void set(json_t **row, const char *key, json_t *value) {
  if (json_object_set_new(*row, key, value) == 0)
    return;
  json_decref(*row);
  *row = NULL;
}

static void set_text(json_t **row, const char *key, const char *text, size_t max_bytes) {
  if (text)
    set(row, key, json_text(text, max_bytes));
}

/* Numbers in these blocks are below 2^63, a limit of JSON readers. */
static void set_number(json_t **row, const char *key, uint64_t value) {
  set(row, key, json_integer(value < INT64_MAX ? (json_int_t)value : INT64_MAX));
}

int trace_writer_module(struct trace_writer *writer, const struct trace_module *module) {
  if (module->start >= module->end)
    return 0;
  json_t *row = json_object();
  set_text(&row, "name", module->name ? module->name : "", 255);
  set_text(&row, "path", module->path, 4095);
  set_text(&row, "build_id", module->build_id, 2 * TRACE_MAX_BUILD_ID_BYTES);
  set_number(&row, "start", module->start);
  set_number(&row, "end", module->end);
  set_number(&row, "bias", module->bias);
  return add_row(writer, &writer->modules, row);
}

int trace_writer_mark(struct trace_writer *writer, const struct trace_mark *mark) {
  const struct thread_state *state = mark->thread < writer->threads.count ? &writer->threads.at[mark->thread] : NULL;
  json_t *row = json_object();
  set_number(&row, "stamp", mark->stamp);
  set_number(&row, "thread", mark->thread);
  set_number(&row, "events",
             mark->events != TRACE_MARK_HERE ? mark->events
             : state                         ? state->written + state->count
                                             : 0);
  set_text(&row, "text", mark->text, TRACE_MARK_MAX_BYTES);
  return add_row(writer, &writer->marks, row);
}

int trace_writer_thread_name(struct trace_writer *writer, uint32_t thread, const char *name) {
  json_t *row = json_object();
  set_number(&row, "thread", thread);
  set_text(&row, "name", name, 255);
  return add_row(writer, &writer->thread_names, row);
}

static int flush_rows(struct trace_writer *writer, enum block_type type, json_t **rows) {
  if (!*rows)
    return 0;
  char *json = json_dumps(*rows, JSON_COMPACT);
  struct block_header header = {.type = (uint8_t)type, .rows = (uint32_t)json_array_size(*rows)};
  json_decref(*rows);
  *rows = NULL;
  int result = json ? write_json_block(writer, header, json) : writer_fail(writer, ENOMEM);
  free(json);
  return result;
}

static int flush_stacks(struct trace_writer *writer) {
  if (writer->stack_count == 0)
    return 0;
  struct column columns[2];
  for (uint8_t i = 0; i < 2; i++) {
    struct buffer *bytes = &writer->stack_column[i];
    if (bytes->failed)
      return writer_fail(writer, ENOMEM);
    columns[i] = column_of(i + 1, bytes->bytes, bytes->used);
    bytes->used = 0;
  }
  struct block_header header = {.type = BLOCK_STACKS, .rows = writer->stack_count};
  writer->stack_count = 0;
  writer->stack_instruction = 0;
  return write_block(writer, &header, columns, 2);
}

/* Modules are written before the stacks that refer to them. */
int flush_annotations(struct trace_writer *writer) {
  if (flush_rows(writer, BLOCK_MODULES, &writer->modules) != 0 || flush_stacks(writer) != 0 ||
      flush_rows(writer, BLOCK_MARKS, &writer->marks) != 0 ||
      flush_rows(writer, BLOCK_THREADS, &writer->thread_names) != 0)
    return -1;
  writer->totals.file_bytes = writer->offset;
  return 0;
}

void annotations_free(struct trace_writer *writer) {
  stack_table_free(&writer->stacks);
  buffer_free(&writer->stack_column[0]);
  buffer_free(&writer->stack_column[1]);
  json_decref(writer->modules);
  json_decref(writer->marks);
  json_decref(writer->thread_names);
}

int flush_samples(struct trace_writer *writer) {
  if (writer->sample_count == 0)
    return 0;
  struct buffer buffers[SAMPLE_COLUMNS] = {0};
  struct column columns[SAMPLE_COLUMNS];
  bool failed = false;
  for (int id = 0; id < SAMPLE_COLUMNS; id++) {
    uint64_t previous = 0;
    for (uint32_t row = 0; row < writer->sample_count; row++) {
      uint64_t now = writer->samples[row].quantities[id];
      if (now == TRACE_SAMPLE_MISSING) {
        buffers[id].used = 0;
        break;
      }
      buffer_append_leb(&buffers[id], zigzag((int64_t)(now - previous)));
      previous = now;
    }
    failed |= buffers[id].failed;
    columns[id] = column_of((uint8_t)(id + 1), buffers[id].bytes, buffers[id].used);
    columns[id].entry.flags = 0;
  }
  struct block_header header = {.type = BLOCK_SAMPLES,
                                .rows = writer->sample_count,
                                .first_stamp = writer->samples[0].stamp,
                                .last_stamp = writer->samples[writer->sample_count - 1].stamp};
  int result = failed ? writer_fail(writer, ENOMEM) : write_block(writer, &header, columns, SAMPLE_COLUMNS);
  for (int id = 0; id < SAMPLE_COLUMNS; id++)
    buffer_free(&buffers[id]);
  writer->sample_count = 0;
  writer->totals.file_bytes = writer->offset;
  return result;
}

int trace_writer_sample(struct trace_writer *writer, const struct trace_sample *sample) {
  writer->samples[writer->sample_count++] = *sample;
  return writer->sample_count == SAMPLES_PER_BLOCK ? flush_samples(writer) : 0;
}

int flush_touched(struct trace_writer *writer) {
  if (writer->touched_count == 0)
    return 0;
  struct column columns[3];
  for (uint8_t i = 0; i < 3; i++) {
    if (writer->touched[i].failed)
      return writer_fail(writer, ENOMEM);
    columns[i] = column_of(i + 1, writer->touched[i].bytes, writer->touched[i].used);
    columns[i].entry.flags = 0;
    writer->touched[i].used = 0;
  }
  struct block_header header = {.type = BLOCK_TOUCHED, .rows = writer->touched_count};
  writer->touched_count = 0;
  writer->touched_address = 0;
  int count = writer->touched_has_parts ? 3 : 2;
  writer->touched_has_parts = false;
  return write_block(writer, &header, columns, count);
}

int trace_writer_touched(struct trace_writer *writer, uint64_t address, struct touched touched) {
  buffer_append_leb(&writer->touched[0], zigzag((int64_t)(address - writer->touched_address)));
  buffer_append_leb(&writer->touched[1], touched.os_pages);
  buffer_append_leb(&writer->touched[2], touched.parts);
  writer->touched_has_parts |= touched.parts != 0;
  writer->touched_address = address;
  return ++writer->touched_count == TRACE_MAX_ROWS ? flush_touched(writer) : 0;
}

/* SPDX-License-Identifier: MIT */
#include "core/trace/accesses.h"
#include "core/trace/write/trace_write.h"
#include "core/trace/write/writer.h"

#include <errno.h>

/* The lowest level used. Measured on recordings of perl, python3 and sqlite3 (docs/measurements/accesses.md): 7 takes 2
   to 3 % fewer bytes and a seventh more instructions, 5 takes 3 to 5 % more bytes; 12 takes six times as long. */
enum { ACCESSES_ZSTD_LEVEL = 6 };

int trace_writer_accesses_begin(struct trace_writer *writer) {
  writer->totals.accesses.recorded = true;
  if (!writer->accesses && !(writer->accesses = access_encoder_new()))
    return writer_fail(writer, ENOMEM);
  return 0;
}

/* Called before the rows around the switches are written, so that no row is read without them. */
static int flush_switches(struct trace_writer *writer) {
  struct trace_access_totals *totals = &writer->totals.accesses;
  if (writer->switch_count == 0)
    return 0;
  if (writer->switch_column.failed)
    return writer_fail(writer, ENOMEM);
  struct column column = column_of(BURST_COLUMN_ROWS, writer->switch_column.bytes, writer->switch_column.used);
  struct block_header header = {.type = BLOCK_BURSTS,
                                .rows = writer->switch_count,
                                .first_stamp = totals->switches,
                                .last_stamp = totals->switches + writer->switch_count};
  if (write_block(writer, &header, &column, 1) != 0)
    return -1;
  totals->switches = header.last_stamp;
  writer->switch_column.used = 0;
  writer->switch_row = writer->switch_count = 0;
  writer->totals.file_bytes = writer->offset;
  return 0;
}

static int add_switch(struct trace_writer *writer, bool begins) {
  const struct trace_access_totals *totals = &writer->totals.accesses;
  uint64_t row = totals->calls + totals->objects + totals->other + access_encoder_block(writer->accesses)->rows;
  if (((totals->switches + writer->switch_count) % 2 == 0) != begins)
    return 0;
  if (writer->switch_count == TRACE_MAX_ROWS && flush_accesses(writer) != 0)
    return -1;
  buffer_append_leb(&writer->switch_column, row - writer->switch_row);
  writer->switch_row = row;
  writer->switch_count++;
  return 0;
}

int flush_accesses(struct trace_writer *writer) {
  if (flush_switches(writer) != 0)
    return -1;
  if (!writer->accesses || access_encoder_block(writer->accesses)->rows == 0)
    return 0;
  const struct encoded_accesses *block = access_encoder_finish(writer->accesses);
  struct column columns[ACCESS_COLUMNS - 1];
  for (uint8_t id = 1; id < ACCESS_COLUMNS; id++) {
    if (block->columns[id].failed)
      return writer_fail(writer, ENOMEM);
    columns[id - 1] = column_of(id, block->columns[id].bytes, block->columns[id].used);
  }
  struct block_header header = {
      .type = BLOCK_ACCESSES, .rows = block->rows, .first_stamp = block->first_acquired, .last_stamp = block->acquired};
  if (writer->zstd_level < ACCESSES_ZSTD_LEVEL)
    ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_compressionLevel, ACCESSES_ZSTD_LEVEL);
  int result = write_block(writer, &header, columns, ACCESS_COLUMNS - 1);
  ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_compressionLevel, writer->zstd_level);
  if (result != 0)
    return -1;
  struct trace_access_totals *totals = &writer->totals.accesses;
  totals->calls += block->calls;
  totals->objects += block->objects;
  totals->other += block->other;
  access_encoder_next_block(writer->accesses);
  writer->totals.accesses.pending = 0;
  writer->totals.file_bytes = writer->offset;
  return 0;
}

void lose_accesses(struct trace_writer *writer) {
  if (!writer->accesses)
    return;
  writer->totals.accesses.lost += access_encoder_block(writer->accesses)->rows;
  access_encoder_next_block(writer->accesses);
  writer->totals.accesses.pending = 0;
  writer->switch_count = 0;
}

int trace_writer_access(struct trace_writer *writer, const struct access_item *item) {
  struct trace_access_totals *totals = &writer->totals.accesses;
  if (!writer->accesses && trace_writer_accesses_begin(writer) != 0)
    return -1;
  if (item->kind == ACCESS_TOTAL) {
    if (item->total >= ACCESS_TOTAL_LIMIT || item->value > INT64_MAX)
      return 1;
    totals->counted[item->total] = item->value;
    totals->known[item->total] = true;
    return 0;
  }
  if (writer->saved_errno) {
    totals->lost++;
    return -1;
  }
  if (item->kind == ACCESS_BURST) {
    totals->in_bursts = true;
    return add_switch(writer, item->value != 0);
  }
  if (totals->in_bursts && item->kind != ACCESS_EVENT && (totals->switches + writer->switch_count) % 2 == 0)
    return 1;
  if (totals->pending == TRACE_MAX_ROWS && flush_accesses(writer) != 0)
    return -1;
  if (!access_encode(writer->accesses, item))
    return 1;
  totals->pending++;
  return 0;
}

json_t *footer_accesses(const struct trace_writer *writer) {
  const struct trace_access_totals *totals = &writer->totals.accesses;
  if (!totals->recorded)
    return NULL;
  json_t *accesses = json_pack("{sI sI sI}", "calls", (json_int_t)totals->calls, "objects", (json_int_t)totals->objects,
                               "other", (json_int_t)totals->other);
  for (int total = 0; accesses && total < ACCESS_TOTAL_LIMIT; total++)
    if (totals->known[total])
      json_object_set_new(accesses, access_total_names[total], json_integer((json_int_t)totals->counted[total]));
  if (accesses && totals->in_bursts)
    json_object_set_new(accesses, "bursts", json_integer((json_int_t)(totals->switches + 1) / 2));
  if (accesses && totals->lost)
    json_object_set_new(accesses, "lost", json_integer((json_int_t)totals->lost));
  return accesses;
}

/* SPDX-License-Identifier: MIT */
#include "core/base/leb.h"
#include "core/trace/layout.h"
#include "core/trace/write/trace_write.h"
#include "core/trace/write/writer.h"

#include <errno.h>

enum { ROWS_PER_BLOCK = 1 << 16 };

void trace_writer_access_samples_begin(struct trace_writer *writer) {
  writer->totals.access_samples.recorded = true;
}

static void next_block(struct trace_writer *writer) {
  for (int id = 1; id < ACCESS_SAMPLE_COLUMNS; id++)
    writer->access_samples.columns[id].used = 0;
  writer->access_samples.last = (struct trace_access_sample){0};
  writer->totals.access_samples.pending = 0;
}

void lose_access_samples(struct trace_writer *writer) {
  writer->totals.access_samples.lost += writer->totals.access_samples.pending;
  next_block(writer);
}

int flush_access_samples(struct trace_writer *writer) {
  struct trace_access_sample_totals *totals = &writer->totals.access_samples;
  struct column columns[ACCESS_SAMPLE_COLUMNS - 1];
  if (totals->pending == 0)
    return 0;
  for (uint8_t id = 1; id < ACCESS_SAMPLE_COLUMNS; id++) {
    const struct buffer *bytes = &writer->access_samples.columns[id];
    if (bytes->failed)
      return writer_fail(writer, ENOMEM);
    columns[id - 1] = column_of(id, bytes->bytes, bytes->used);
  }
  struct block_header header = {.type = BLOCK_ACCESS_SAMPLES, .rows = (uint32_t)totals->pending};
  if (write_block(writer, &header, columns, ACCESS_SAMPLE_COLUMNS - 1) != 0)
    return -1;
  totals->rows += totals->pending;
  next_block(writer);
  writer->totals.file_bytes = writer->offset;
  return 0;
}

int trace_writer_access_sample(struct trace_writer *writer, const struct trace_access_sample *sample) {
  struct buffer *columns = writer->access_samples.columns;
  struct trace_access_sample *last = &writer->access_samples.last;
  trace_writer_access_samples_begin(writer);
  if (!access_sample_is_known(sample->what))
    return 1;
  if (writer->saved_errno) {
    writer->totals.access_samples.lost++;
    return -1;
  }
  buffer_append_leb(&columns[ACCESS_SAMPLE_COLUMN_STAMP], zigzag((int64_t)(sample->stamp - last->stamp)));
  buffer_append_leb(&columns[ACCESS_SAMPLE_COLUMN_ADDRESS], zigzag((int64_t)(sample->address - last->address)));
  buffer_append(&columns[ACCESS_SAMPLE_COLUMN_WHAT], &sample->what, 1);
  buffer_append_leb(&columns[ACCESS_SAMPLE_COLUMN_LATENCY], sample->latency_cycles);
  *last = *sample;
  return ++writer->totals.access_samples.pending == ROWS_PER_BLOCK ? flush_access_samples(writer) : 0;
}

void access_samples_free(struct trace_writer *writer) {
  for (int id = 1; id < ACCESS_SAMPLE_COLUMNS; id++)
    buffer_free(&writer->access_samples.columns[id]);
}

json_t *footer_access_samples(const struct trace_writer *writer) {
  const struct trace_access_sample_totals *totals = &writer->totals.access_samples;
  return totals->recorded ? json_pack("{sI sI sI sI sI}", "rows", (json_int_t)totals->rows, "kernel",
                                      (json_int_t)totals->kernel, "no_address", (json_int_t)totals->no_address, "lost",
                                      (json_int_t)totals->lost, "throttled", (json_int_t)totals->throttled)
                          : NULL;
}

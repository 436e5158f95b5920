/* SPDX-License-Identifier: MIT */
#include "core/base/leb.h"
#include "core/trace/read/reader.h"
#include "core/trace/read/trace_read.h"

struct access_sample_visit {
  int (*visit)(void *context, const struct trace_access_sample *sample);
  void *context;
};

/* Takes a row from the front of each column. False: a column is too short, or a code is unknown. */
static bool take_row(struct byte_span *spans, struct trace_access_sample *sample) {
  uint64_t stamp, address;
  struct byte_span *what = &spans[ACCESS_SAMPLE_COLUMN_WHAT];
  struct byte_span *latency = &spans[ACCESS_SAMPLE_COLUMN_LATENCY];
  if (!leb_get(&spans[ACCESS_SAMPLE_COLUMN_STAMP].at, spans[ACCESS_SAMPLE_COLUMN_STAMP].end, &stamp) ||
      !leb_get(&spans[ACCESS_SAMPLE_COLUMN_ADDRESS].at, spans[ACCESS_SAMPLE_COLUMN_ADDRESS].end, &address) ||
      !leb_get(&latency->at, latency->end, &sample->latency_cycles) || what->at == what->end)
    return false;
  sample->stamp += (uint64_t)unzigzag(stamp);
  sample->address += (uint64_t)unzigzag(address);
  sample->what = *what->at++;
  return access_sample_is_known(sample->what);
}

static int visit_rows(const struct block *block, const struct block_place *place, struct block_memory *memory,
                      void *context, struct error *error) {
  const struct access_sample_visit *to = context;
  struct byte_span spans[ACCESS_SAMPLE_COLUMNS];
  struct trace_access_sample sample = {0};
  if (block_read_columns(block, ACCESS_SAMPLE_COLUMNS, spans, memory, error) != 0)
    return -1;
  for (uint32_t row = 0; row < place->rows; row++) {
    if (!take_row(spans, &sample))
      return error_at(error, block->source->path, block->offset,
                      "row %u of ACCESS_SAMPLES: a column is too short or has a bad number", row);
    int stop = to->visit(to->context, &sample);
    if (stop)
      return stop;
  }
  for (int column = 1; column < ACCESS_SAMPLE_COLUMNS; column++)
    if (spans[column].at != spans[column].end)
      return error_at(error, block->source->path, block->offset, "ACCESS_SAMPLES column %d is too long", column);
  return 0;
}

int trace_reader_access_samples(const struct trace_reader *reader,
                                int (*visit)(void *context, const struct trace_access_sample *sample), void *context,
                                struct error *error) {
  struct access_sample_visit to = {visit, context};
  return reader_visit_blocks(reader, BLOCK_ACCESS_SAMPLES, visit_rows, &to, error);
}

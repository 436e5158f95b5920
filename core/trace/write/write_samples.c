/* SPDX-License-Identifier: MIT */
#include "core/base/leb.h"
#include "core/trace/write/trace_write.h"
#include "core/trace/write/writer.h"

#include <errno.h>

/* The quantities of a sample in the order of FORMAT.md section 6. */
static uint64_t sample_quantity(const struct trace_sample *sample, int column) {
  const uint64_t quantities[SAMPLE_COLUMNS] = {sample->stamp,           sample->rss_anon_bytes, sample->rss_file_bytes,
                                               sample->rss_shmem_bytes, sample->vm_size_bytes,  sample->vm_hwm_bytes,
                                               sample->minor_faults,    sample->major_faults,   sample->user_ns,
                                               sample->system_ns};
  return quantities[column];
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
      uint64_t now = sample_quantity(&writer->samples[row], id);
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
  struct column columns[2];
  for (uint8_t i = 0; i < 2; i++) {
    if (writer->touched[i].failed)
      return writer_fail(writer, ENOMEM);
    columns[i] = column_of(i + 1, writer->touched[i].bytes, writer->touched[i].used);
    columns[i].entry.flags = 0;
    writer->touched[i].used = 0;
  }
  struct block_header header = {.type = BLOCK_TOUCHED, .rows = writer->touched_count};
  writer->touched_count = 0;
  writer->touched_address = 0;
  return write_block(writer, &header, columns, 2);
}

int trace_writer_touched(struct trace_writer *writer, uint64_t address, uint32_t os_pages) {
  buffer_append_leb(&writer->touched[0], zigzag((int64_t)(address - writer->touched_address)));
  buffer_append_leb(&writer->touched[1], os_pages);
  writer->touched_address = address;
  return ++writer->touched_count == TRACE_MAX_ROWS ? flush_touched(writer) : 0;
}

#include "core/trace/write/trace_write.h"
#include "core/trace/write/writer.h"

#include <errno.h>

int trace_writer_access(struct trace_writer *writer, const struct access_item *item) {
  struct access_encoder *encoder = &writer->accesses;
  struct trace_access_totals *totals = &writer->totals.accesses;
  if (writer->saved_errno)
    return -1;
  if (item->kind == ACCESS_TOTAL) {
    if (item->total < ACCESS_TOTAL_LIMIT)
      totals->counted[item->total] = item->value;
    totals->are_counted = true;
    return 0;
  }
  if (item->kind == ACCESS_OBJECT && item->object >= encoder->acquired)
    return writer_fail(writer, EINVAL);
  access_encoder_add(encoder, item);
  totals->pending = encoder->rows;
  return encoder->rows == ACCESS_ROWS_PER_BLOCK ? flush_accesses(writer) : 0;
}

int flush_accesses(struct trace_writer *writer) {
  struct access_encoder *encoder = &writer->accesses;
  if (encoder->rows == 0)
    return 0;
  struct column columns[ACCESS_COLUMNS];
  for (uint8_t id = 0; id < ACCESS_COLUMNS; id++) {
    if (encoder->columns[id].failed)
      return writer_fail(writer, ENOMEM);
    columns[id] = column_of(id, encoder->columns[id].bytes, encoder->columns[id].used);
  }
  struct block_header header = {.type = BLOCK_ACCESSES,
                                .rows = encoder->rows,
                                .first_stamp = encoder->first_acquired,
                                .last_stamp = encoder->acquired};
  int result = write_block(writer, &header, columns, ACCESS_COLUMNS);
  if (result == 0) {
    writer->totals.accesses.calls += encoder->rows_of[ACCESS_EVENT];
    writer->totals.accesses.objects += encoder->rows_of[ACCESS_OBJECT];
    writer->totals.accesses.others += encoder->rows_of[ACCESS_OTHER];
    writer->totals.file_bytes = writer->offset;
  }
  writer->totals.accesses.pending = 0;
  access_encoder_next(encoder);
  return result;
}

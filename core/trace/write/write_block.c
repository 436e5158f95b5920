/* SPDX-License-Identifier: MIT */
#include "core/base/os.h"
#include "core/trace/write/writer.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

int writer_fail(struct trace_writer *writer, int error) {
  if (!writer->saved_errno)
    writer->saved_errno = error ? error : EIO;
  return -1;
}

int writer_append(struct trace_writer *writer, const void *bytes, size_t count) {
  if (writer->saved_errno)
    return -1;
  if (!writer->last_words && os_reserve(writer->fd, writer->offset, count + RESERVE_BYTES) != 0)
    return writer_fail(writer, errno);
  if (os_pwrite_all(writer->fd, bytes, count, writer->offset) != 0)
    return writer_fail(writer, errno);
  writer->offset += count;
  return 0;
}

int write_block(struct trace_writer *writer, struct block_header *header, const struct column *columns, int count) {
  struct buffer *out = &writer->compressed;
  struct column_entry directory[TRACE_MAX_COLUMNS];
  int used = 0;
  out->used = 0;
  for (int i = 0; i < count; i++)
    used += columns[i].entry.raw_bytes > 0;
  size_t head = sizeof *header + (size_t)used * sizeof *directory;
  if (!buffer_reserve(out, head))
    return writer_fail(writer, ENOMEM);
  out->used = head;
  used = 0;
  for (int i = 0; i < count; i++) {
    const struct column *column = &columns[i];
    if (column->entry.raw_bytes == 0)
      continue;
    size_t bound = ZSTD_compressBound(column->entry.raw_bytes);
    uint8_t *to = buffer_reserve(out, bound);
    if (!to)
      return writer_fail(writer, ENOMEM);
    size_t stored = ZSTD_compress2(writer->zstd, to, bound, column->bytes, column->entry.raw_bytes);
    if (ZSTD_isError(stored))
      return writer_fail(writer, ENOMEM);
    out->used += stored;
    directory[used] = column->entry;
    directory[used].encoding = ENCODING_ZSTD;
    directory[used++].stored_bytes = (uint32_t)stored;
  }
  memcpy(header->magic, TRACE_BLOCK_MAGIC, sizeof header->magic);
  header->columns = (uint16_t)used;
  header->payload_bytes = (uint32_t)(out->used - sizeof *header);
  uLong crc = crc32(0, (const Bytef *)header, offsetof(struct block_header, crc32));
  header->crc32 = (uint32_t)crc32(crc, (const Bytef *)directory, (uInt)((size_t)used * sizeof *directory));
  memcpy(out->bytes, header, sizeof *header);
  memcpy(out->bytes + sizeof *header, directory, (size_t)used * sizeof *directory);
  return writer_append(writer, out->bytes, out->used);
}

struct column column_of(uint8_t id, const void *bytes, size_t count) {
  return (struct column){{.id = id, .flags = COLUMN_CRITICAL, .raw_bytes = (uint32_t)count}, bytes};
}

int write_json_block(struct trace_writer *writer, struct block_header header, const char *json) {
  struct column column = column_of(1, json, strlen(json));
  return write_block(writer, &header, &column, 1);
}

/* SPDX-License-Identifier: MIT */
#include "core/trace/read/reader.h"

#include "core/base/os.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

/* Reads and checks header and directory at offset. limit: the file's end. Returns 1, 0 if the file ends before the
   block does (truncated), or -1 with error. */
int block_read_head(const struct block_source *source, uint64_t offset, struct block *block, struct error *error) {
  const char *path = source->path;
  block->source = source;
  block->offset = offset;
  struct block_header *header = &block->header;
  uint64_t left = source->file_bytes - offset;
  if (left < sizeof *header)
    return 0;
  if (os_pread_all(source->fd, header, sizeof *header, offset) != 0)
    return error_errno(error, path, "can't read");
  if (memcmp(header->magic, TRACE_BLOCK_MAGIC, sizeof header->magic) != 0)
    return error_at(error, path, offset, "no block starts here (bad magic)");
  size_t directory_bytes = header->columns * sizeof *block->directory;
  if (header->columns > TRACE_MAX_COLUMNS || header->payload_bytes > TRACE_MAX_PAYLOAD_BYTES ||
      header->payload_bytes < directory_bytes)
    return error_at(error, path, offset, "impossible block header");
  if (left - sizeof *header < directory_bytes)
    return 0;
  if (os_pread_all(source->fd, block->directory, directory_bytes, offset + sizeof *header) != 0)
    return error_errno(error, path, "can't read");
  uLong crc = crc32(0, (const Bytef *)header, offsetof(struct block_header, crc32));
  crc = crc32(crc, (const Bytef *)block->directory, (uInt)directory_bytes);
  if (crc != header->crc32)
    return error_at(error, path, offset, "block header fails its checksum");
  if (left - sizeof *header < header->payload_bytes)
    return 0;
  uint64_t stored = directory_bytes;
  for (int i = 0; i < header->columns; i++)
    stored += block->directory[i].stored_bytes;
  if (stored != header->payload_bytes)
    return error_at(error, path, offset, "columns do not add up to the block");
  if (header->rows > TRACE_MAX_ROWS || header->thread >= TRACE_MAX_THREADS || header->steps > 2 * header->rows)
    return error_at(error, path, offset, "impossible block header");
  return 1;
}

/* Columns that mean nothing, below the highest known id. */
static bool is_reserved(const struct block_header *header, uint8_t id) {
  return id == 0 || (header->type == BLOCK_EVENTS && (id == 5 || id == 16)) ||
         (header->type == BLOCK_ACCESSES && (id == 5 || id == 7));
}

/* Bytes that a column may have after decompression, FORMAT.md section 3. */
static uint64_t column_limit(const struct block_header *header, uint8_t id) {
  if (header->type == BLOCK_INFO)
    return TRACE_MAX_INFO_BYTES;
  if (header->type != BLOCK_EVENTS && header->type != BLOCK_ACCESSES && header->type != BLOCK_BURSTS)
    return TRACE_MAX_OTHER_COLUMN_BYTES;
  uint64_t limit = 10 * (uint64_t)header->rows + 64;
  if (header->type != BLOCK_EVENTS)
    return limit;
  if (id == COLUMN_ROWS)
    return 4 * limit;
  return id == COLUMN_STAMP_GAP || id == COLUMN_STAMP_DELTA || id == COLUMN_TOUCHED ? 2 * limit : limit;
}

/* The zstd context is kept for the next column: creating one takes two CPUIDs, which trap in a virtual machine. */
static size_t decompress(void *to, size_t room, const void *from, size_t bytes) {
  static _Atomic(ZSTD_DCtx *) kept;
  ZSTD_DCtx *context = atomic_exchange(&kept, NULL);
  if (!context && !(context = ZSTD_createDCtx()))
    return (size_t)-ZSTD_error_memory_allocation;
  size_t got = ZSTD_decompressDCtx(context, to, room, from, bytes);
  ZSTD_freeDCtx(atomic_exchange(&kept, context));
  return got;
}

int block_read_columns(const struct block *block, int known, struct byte_span *spans, struct block_memory *memory,
                       struct error *error) {
  const struct block_source *source = block->source;
  const struct block_header *header = &block->header;
  struct buffer *stored = &memory->stored, *raw = &memory->raw;
  uint64_t offset = block->offset;
  uint64_t at = offset + sizeof *header + header->columns * sizeof *block->directory;
  size_t starts[TRACE_MAX_COLUMNS] = {0}, sizes[TRACE_MAX_COLUMNS] = {0};
  bool seen[TRACE_MAX_COLUMNS] = {false};
  raw->used = 0;
  for (int i = 0; i < header->columns; i++) {
    const struct column_entry *entry = &block->directory[i];
    uint64_t column_offset = at;
    at += entry->stored_bytes;
    if (entry->id >= known || is_reserved(header, entry->id) || entry->encoding != ENCODING_ZSTD) {
      if (entry->flags & COLUMN_CRITICAL)
        return error_at(error, source->path, offset, "column %d, encoding %d, must be understood and is not known",
                        entry->id, entry->encoding);
      continue;
    }
    if (seen[entry->id])
      return error_at(error, source->path, offset, "column %d occurs twice", entry->id);
    seen[entry->id] = true;
    if (entry->raw_bytes > column_limit(header, entry->id) || entry->shift > 63)
      return error_at(error, source->path, offset, "column %d is larger than its block allows", entry->id);
    stored->used = 0;
    if (!buffer_reserve(stored, entry->stored_bytes + 1) || !buffer_reserve(raw, (size_t)entry->raw_bytes + 1))
      return error_at(error, source->path, offset, "out of memory");
    if (os_pread_all(source->fd, stored->bytes, entry->stored_bytes, column_offset) != 0)
      return error_errno(error, source->path, "can't read");
    if (ZSTD_getFrameContentSize(stored->bytes, entry->stored_bytes) != entry->raw_bytes ||
        ZSTD_findFrameCompressedSize(stored->bytes, entry->stored_bytes) != entry->stored_bytes)
      return error_at(error, source->path, column_offset, "column %d is not one zstd frame of its size", entry->id);
    size_t got = decompress(raw->bytes + raw->used, entry->raw_bytes, stored->bytes, entry->stored_bytes);
    if (ZSTD_isError(got) || got != entry->raw_bytes)
      return error_at(error, source->path, column_offset, "column %d: %s", entry->id,
                      ZSTD_isError(got) ? ZSTD_getErrorName(got) : "wrong size");
    starts[entry->id] = raw->used;
    sizes[entry->id] = got;
    raw->used += got;
  }
  for (int id = 0; id < known; id++)
    spans[id] = (struct byte_span){raw->bytes + starts[id], raw->bytes + starts[id] + sizes[id]};
  return 0;
}

void block_memory_free(struct block_memory *memory) {
  buffer_free(&memory->stored);
  buffer_free(&memory->raw);
}

/* A value takes 3 bytes in the file's column and a hundred in memory, so values are counted before they are parsed. It
   counts separators: there is one before each value. */
static bool json_is_small(const uint8_t *at, const uint8_t *end) {
  uint32_t values = 0;
  bool quoted = false;
  for (; at < end; at++) {
    if (*at == '"')
      quoted = !quoted;
    else if (quoted)
      at += *at == '\\';
    else if ((*at == ',' || *at == ':' || *at == '[' || *at == '{') && ++values > TRACE_MAX_JSON_VALUES)
      return false;
  }
  return true;
}

/* Returns NULL with error if it is not JSON. */
static json_t *parse_json(const struct block *block, const struct byte_span *span, json_error_t *wrong,
                          struct error *error) {
  if (!json_is_small(span->at, span->end)) {
    error_at(error, block->source->path, block->offset, "JSON of more than %d values", TRACE_MAX_JSON_VALUES);
    return NULL;
  }
  return json_loadb((const char *)span->at, (size_t)(span->end - span->at), JSON_REJECT_DUPLICATES, wrong);
}

char *block_read_json(const struct block *block, json_t **object, struct error *error) {
  const char *path = block->source->path;
  struct byte_span spans[3] = {{0}};
  struct block_memory memory = {0};
  char *text = NULL;
  if (block_read_columns(block, 3, spans, &memory, error) == 0) {
    json_error_t wrong = {.text = ""};
    size_t bytes = (size_t)(spans[1].end - spans[1].at);
    *object = parse_json(block, &spans[1], &wrong, error);
    if (!json_is_object(*object))
      error_at(error, path, block->offset, "not a JSON object: %s", *object ? "another type" : wrong.text);
    else if (!(text = strndup((const char *)spans[1].at, bytes)))
      error_at(error, path, block->offset, "out of memory");
    if (!text) {
      json_decref(*object);
      *object = NULL;
    }
  }
  block_memory_free(&memory);
  return text;
}

json_t *block_read_array(const struct block *block, struct error *error) {
  struct byte_span spans[2] = {{0}};
  struct block_memory memory = {0};
  json_t *array = NULL;
  if (block_read_columns(block, 2, spans, &memory, error) == 0) {
    json_error_t wrong = {.text = ""};
    array = parse_json(block, &spans[1], &wrong, error);
    if (!json_is_array(array) || json_array_size(array) != block->header.rows) {
      error_at(error, block->source->path, block->offset, "not a JSON array of %u values%s%s", block->header.rows,
               array ? "" : ": ", array ? "" : wrong.text);
      json_decref(array);
      array = NULL;
    }
  }
  block_memory_free(&memory);
  return array;
}

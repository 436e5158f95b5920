/* SPDX-License-Identifier: MIT */
#include "replay/passes/misses/accesses_reader.h"

#include <inttypes.h>
#include <string.h>

int accesses_reader_open(struct accesses_reader *reader, const char *path, struct error *error) {
  struct access_file_header header;
  reader->path = path;
  reader->file = fopen(path, "rbe");
  reader->coder = (struct access_coder){0};
  reader->at = reader->filled = reader->buffer;
  reader->offset = sizeof header;
  if (!reader->file)
    return error_errno(error, path, "can't open");
  if (fread(&header, sizeof header, 1, reader->file) != 1 ||
      memcmp(header.magic, ACCESS_FILE_MAGIC, sizeof header.magic) != 0)
    return error_set(error, path, "is not a stream of accesses");
  if (header.version != ACCESS_FILE_VERSION)
    return error_set(error, path, "is a stream of accesses of version %" PRIu32 "; this reader knows version %d",
                     header.version, ACCESS_FILE_VERSION);
  reader->filter_bytes = header.filter_bytes;
  return 0;
}

void accesses_reader_close(struct accesses_reader *reader) {
  if (reader->file)
    fclose(reader->file);
  reader->file = NULL;
}

/* Moves the remaining bytes to the buffer's start and fills it up. */
static void refill(struct accesses_reader *reader) {
  size_t left = (size_t)(reader->filled - reader->at);
  memmove(reader->buffer, reader->at, left);
  reader->at = reader->buffer;
  reader->filled = reader->buffer + left + fread(reader->buffer + left, 1, sizeof reader->buffer - left, reader->file);
}

int accesses_reader_next(struct accesses_reader *reader, struct access_item *item, struct error *error) {
  if (reader->filled - reader->at < ACCESS_ITEM_BYTES)
    refill(reader);
  const uint8_t *before = reader->at;
  if (access_get(&reader->coder, &reader->at, reader->filled, item)) {
    reader->offset += (uint64_t)(reader->at - before);
    return 1;
  }
  if (ferror(reader->file))
    return error_errno(error, reader->path, "can't read");
  if (before == reader->filled)
    return 0;
  const char *what = reader->filled - before < ACCESS_ITEM_BYTES ? "is cut short" : "a number of more than 64 bits";
  return error_at(error, reader->path, reader->offset, "%s", what);
}

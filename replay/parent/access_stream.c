/* SPDX-License-Identifier: MIT */
#include "replay/parent/access_stream.h"

#include "core/accesses/replay_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 16 };

struct reader {
  const char *path;
  FILE *file;
  uint64_t offset; /* of at */
  struct access_coder coder;
  const uint8_t *at, *filled;
  uint8_t buffer[BUFFER_BYTES];
};

static int read_header(struct reader *reader, struct access_stream *stream, struct error *error) {
  struct access_file_header header;
  if (fread(&header, sizeof header, 1, reader->file) != 1 ||
      memcmp(header.magic, ACCESS_FILE_MAGIC, sizeof header.magic) != 0)
    return error_set(error, reader->path, "is no stream of accesses");
  if (header.version != ACCESS_FILE_VERSION)
    return error_set(error, reader->path, "is a stream of accesses of version %" PRIu32 ", and %d is known",
                     header.version, ACCESS_FILE_VERSION);
  stream->filter_bytes = header.filter_bytes;
  reader->offset = sizeof header;
  return 0;
}

/* Moves what is left to the buffer's start and fills up. */
static void refill(struct reader *reader) {
  size_t left = (size_t)(reader->filled - reader->at);
  memmove(reader->buffer, reader->at, left);
  reader->at = reader->buffer;
  reader->filled = reader->buffer + left + fread(reader->buffer + left, 1, BUFFER_BYTES - left, reader->file);
}

/* Returns 1, or 0 at the end of the file, or -1 with error filled in. */
static int next_item(struct reader *reader, struct access_item *item, struct error *error) {
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

static int take_total(struct reader *reader, struct access_stream *stream, const struct access_item *item,
                      struct error *error) {
  if (item->total >= ACCESS_TOTAL_LIMIT || stream->totals_known >> item->total & 1)
    return error_at(error, reader->path, reader->offset, "total %" PRIu32 " is unknown, or there twice", item->total);
  stream->totals_known |= 1u << item->total;
  stream->totals[item->total] = item->value;
  return 0;
}

/* Bursts begin and end in turn, but for the first item, which tells that there are bursts. */
static int take_burst(struct reader *reader, struct access_stream *stream, const struct access_item *item,
                      struct error *error) {
  bool is_first = stream->events + stream->accesses == 0 && !stream->has_bursts;
  if (item->value > 1 || (is_first ? item->value != 0 : !stream->has_bursts || stream->in_burst == item->value))
    return error_at(error, reader->path, reader->offset, "a burst begins or ends twice");
  stream->has_bursts = true;
  stream->in_burst = item->value;
  stream->bursts += item->value;
  return 0;
}

static int take(struct reader *reader, struct access_stream *stream, const struct access_item *item, uint64_t slots,
                struct error *error) {
  if (item->kind == ACCESS_TOTAL)
    return take_total(reader, stream, item, error);
  if (stream->totals_known)
    return error_at(error, reader->path, reader->offset, "an item behind the totals");
  if (item->kind == ACCESS_BURST)
    return take_burst(reader, stream, item, error);
  if (item->kind != ACCESS_EVENT && stream->has_bursts && !stream->in_burst)
    return error_at(error, reader->path, reader->offset, "an access outside of a burst");
  if (item->kind == ACCESS_OBJECT && item->object >= slots)
    return error_at(error, reader->path, reader->offset,
                    "slot %" PRIu64 ", and the workload has %" PRIu64 ": the stream is damaged, or another workload's",
                    item->object, slots);
  if (item->kind == ACCESS_EVENT)
    stream->events++;
  else
    stream->accesses++;
  return 0;
}

int access_stream_check(struct access_stream *stream, const char *path, uint64_t ops, uint64_t slots,
                        struct error *error) {
  static struct reader reader;
  reader = (struct reader){.path = path, .file = fopen(path, "rb"), .at = reader.buffer, .filled = reader.buffer};
  *stream = (struct access_stream){0};
  if (!reader.file)
    return error_errno(error, path, "can't open");
  struct access_item item = {.kind = ACCESS_EVENT};
  int status = read_header(&reader, stream, error) == 0 ? 1 : -1;
  while (status > 0 && (status = next_item(&reader, &item, error)) > 0) {
    if (take(&reader, stream, &item, slots, error) != 0)
      status = -1;
  }
  fclose(reader.file);
  if (status == 0 && stream->events != ops)
    return error_set(error, path, "%" PRIu64 " calls, and the workload has %" PRIu64 ": it is another workload's",
                     stream->events, ops);
  if (status == 0 && stream->has_bursts && stream->bursts == 0)
    return error_set(error, path, "the program was recorded in bursts, and none began: there are no accesses");
  return status;
}

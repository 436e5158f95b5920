/* SPDX-License-Identifier: MIT */
#include "replay/passes/access_stream.h"

#include "core/workload/accesses_read.h"

#include <inttypes.h>

static int take_total(struct accesses_reader *reader, struct access_stream *stream, const struct access_item *item,
                      struct error *error) {
  if (item->total >= ACCESS_TOTAL_LIMIT || stream->totals_known >> item->total & 1)
    return error_at(error, reader->path, reader->offset, "total %" PRIu32 " is unknown, or there twice", item->total);
  stream->totals_known |= 1u << item->total;
  stream->totals[item->total] = item->value;
  return 0;
}

/* Bursts begin and end alternately, except the first item, which marks that there are bursts. */
static int take_burst(struct accesses_reader *reader, struct access_stream *stream, const struct access_item *item,
                      struct error *error) {
  bool is_first = stream->events + stream->accesses == 0 && !stream->has_bursts;
  if (item->value > 1 || (is_first ? item->value != 0 : !stream->has_bursts || stream->in_burst == item->value))
    return error_at(error, reader->path, reader->offset, "a burst begins or ends twice");
  stream->has_bursts = true;
  stream->in_burst = item->value;
  stream->bursts += item->value;
  return 0;
}

static int take(struct accesses_reader *reader, struct access_stream *stream, const struct access_item *item,
                uint64_t slots, struct error *error) {
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
  static struct accesses_reader reader;
  *stream = (struct access_stream){0};
  struct access_item item = {.kind = ACCESS_EVENT};
  int status = accesses_reader_open(&reader, path, error) == 0 ? 1 : -1;
  stream->filter_bytes = reader.filter_bytes;
  while (status > 0 && (status = accesses_reader_next(&reader, &item, error)) > 0) {
    if (take(&reader, stream, &item, slots, error) != 0)
      status = -1;
  }
  accesses_reader_close(&reader);
  if (status == 0 && stream->events != ops)
    return error_set(error, path,
                     "%" PRIu64 " calls, and the workload has %" PRIu64 ": the stream belongs to another workload",
                     stream->events, ops);
  if (status == 0 && stream->has_bursts && stream->bursts == 0)
    return error_set(error, path, "the program was recorded in bursts, and none began: there are no accesses");
  return status;
}

/* SPDX-License-Identifier: MIT */
#include "replay/accesses/prepared.h"

#include "core/base/os.h"
#include "core/trace/access_stream.h"
#include "replay/accesses/other_memory.h"
#include "replay/state/engine_state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* 64 MiB: preparing a piece evicts little from the caches compared with what performing it loads. */
#ifndef PREPARED_PIECE_ITEMS
#define PREPARED_PIECE_ITEMS (8u << 20)
#endif

enum { BUFFER_BYTES = 1 << 18 };

static struct {
  const char *path;
  int fd;
  uint32_t other_slot;
  struct access_coder coder;
  uint8_t buffer[BUFFER_BYTES];
  const uint8_t *at, *filled;
  bool at_end;
  uint64_t *items;
  uint64_t most_items; /* of a piece, without its mark */
  struct prepared_counts counts;
} stream;

static uint64_t item_of(uint32_t slot, int32_t granule) {
  return (uint64_t)(uint32_t)granule << 32 | slot;
}

/* An item has at least a byte, so a short file does not need a whole piece. */
static void map_items(void) {
  struct stat about;
  if (fstat(stream.fd, &about) != 0)
    engine_fail(NULL, "%s: %s", stream.path, strerror(errno));
  uint64_t bytes = (uint64_t)about.st_size;
  stream.most_items = bytes < PREPARED_PIECE_ITEMS ? bytes : PREPARED_PIECE_ITEMS;
  uint64_t room = (stream.most_items + 1) * sizeof *stream.items;
  stream.items = os_map(room, false);
  if (!stream.items)
    engine_fail(NULL, "no memory for recorded accesses: %s", strerror(errno));
  madvise(stream.items, room, MADV_HUGEPAGE); /* so that they take few entries of the TLB */
  memset(stream.items, 0, room);
}

void prepared_open(const char *path, uint32_t other_slot) {
  stream.path = path;
  stream.other_slot = other_slot;
  stream.at = stream.filled = stream.buffer;
  stream.fd = open(path, O_RDONLY | O_CLOEXEC);
  if (stream.fd < 0 || lseek(stream.fd, sizeof(struct access_file_header), SEEK_SET) < 0)
    engine_fail(NULL, "%s: %s", path, strerror(errno));
  map_items();
}

/* Moves the remaining bytes to the buffer's start and fills it up. */
static void refill(void) {
  size_t left = (size_t)(stream.filled - stream.at);
  memmove(stream.buffer, stream.at, left);
  stream.at = stream.buffer;
  while (!stream.at_end && left < BUFFER_BYTES) {
    ssize_t got = read(stream.fd, stream.buffer + left, BUFFER_BYTES - left);
    if (got < 0 && errno != EINTR)
      engine_fail(NULL, "%s: can't read: %s", stream.path, strerror(errno));
    stream.at_end = got == 0;
    left += got > 0 ? (size_t)got : 0;
  }
  stream.filled = stream.buffer + left;
}

/* Returns false at the stream's end. */
static bool next_item(struct access_item *item) {
  if (stream.filled - stream.at < ACCESS_ITEM_BYTES && !stream.at_end)
    refill();
  if (access_get(&stream.coder, &stream.at, stream.filled, item))
    return true;
  if (stream.at != stream.filled)
    engine_fail(NULL, "%s: is cut short", stream.path);
  return false;
}

static uint64_t prepared_object(const struct access_item *item) {
  stream.counts.accesses++;
  stream.counts.object_accesses++;
  if (item->object >= stream.other_slot)
    engine_fail(NULL, "%s: slot %" PRIu64 ", and the workload has %" PRIu32 ": the file was changed meanwhile",
                stream.path, item->object, stream.other_slot);
  if (item->granule != (int32_t)item->granule)
    engine_fail(NULL, "%s: an access 32 GiB or more from its object's start", stream.path);
  return item_of((uint32_t)item->object, (int32_t)item->granule);
}

static uint64_t prepared_other(const struct access_item *item) {
  stream.counts.accesses++;
  int32_t granule = other_memory_granule((uint64_t)item->granule);
  if (granule < 0)
    engine_fail(NULL, "%s: accesses to more than 32 GiB outside of objects", stream.path);
  return item_of(stream.other_slot, granule);
}

const uint64_t *prepared_next_piece(void) {
  struct access_item item;
  uint64_t count = 0;
  enum item_mark end = ITEM_PIECE_END;
  while (count < stream.most_items) {
    if (!next_item(&item)) {
      end = ITEM_STREAM_END;
      break;
    }
    if (item.kind == ACCESS_OBJECT)
      stream.items[count++] = prepared_object(&item);
    else if (item.kind == ACCESS_OTHER)
      stream.items[count++] = prepared_other(&item);
    else if (item.kind == ACCESS_EVENT)
      stream.items[count++] = item_of(ITEM_NO_SLOT, ITEM_OP);
  }
  stream.items[count] = item_of(ITEM_NO_SLOT, (int32_t)end);
  stream.counts.items += count + 1;
  return stream.items;
}

struct prepared_counts prepared_counts(void) {
  return stream.counts;
}

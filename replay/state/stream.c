#include "replay/state/stream.h"

#include "core/base/os.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <zlib.h>

/* Asked of the disk at a time, ahead of the stream that is furthest on. */
enum { READ_AHEAD_BYTES = 8 << 20 };

static _Atomic uint64_t read_ahead_to;

static int check_header(const struct workload_map *map, struct trace_error *error) {
  const struct workload_header *header = &map->header;
  if (memcmp(header->magic, WORKLOAD_MAGIC, sizeof header->magic) != 0)
    return trace_error_at(error, map->path, 0, "not a heaptape workload");
  if (header->version != WORKLOAD_VERSION || header->header_bytes != WORKLOAD_HEADER_BYTES)
    return trace_error_at(error, map->path, 8, "workload version %" PRIu32 ", this engine knows %d", header->version,
                          WORKLOAD_VERSION);
  if (crc32(0, (const Bytef *)header, offsetof(struct workload_header, crc32)) != header->crc32)
    return trace_error_at(error, map->path, 252, "wrong checksum of the header");
  if (header->file_bytes != map->file_bytes)
    return trace_error_at(error, map->path, 16, "the header says %" PRIu64 " bytes, the file has %" PRIu64,
                          header->file_bytes, map->file_bytes);
  if (header->threads > WORKLOAD_MAX_THREADS)
    return trace_error_at(error, map->path, 40, "%" PRIu32 " threads", header->threads);
  if (header->slots > UINT32_MAX - 1)
    return trace_error_at(error, map->path, 44, "too many slots");
  return 0;
}

/* Is a table of count entries inside the file and aligned? */
static bool table_fits(const struct workload_map *map, uint64_t offset, uint64_t count, uint64_t entry_bytes) {
  return offset % 8 == 0 && offset >= WORKLOAD_HEADER_BYTES && offset <= map->file_bytes &&
         count <= (map->file_bytes - offset) / entry_bytes;
}

static int check_extents(struct workload_map *map, struct trace_error *error) {
  const struct workload_header *header = &map->header;
  uint64_t words = 0, index = 0;
  for (uint32_t stream = 0; stream <= header->threads + 1; stream++) {
    map->first_extent[stream] = index;
    for (; index < header->extents && map->extents[index].stream == stream; index++) {
      const struct workload_extent *extent = &map->extents[index];
      if (extent->words == 0 || !table_fits(map, extent->offset, extent->words, sizeof(uint64_t)))
        return trace_error_at(error, map->path, header->extents_offset + index * sizeof *extent,
                              "extent outside the file");
      words += stream < header->threads ? extent->words : 0;
    }
  }
  map->first_extent[header->threads + 2] = index;
  if (index != header->extents)
    return trace_error_at(error, map->path, header->extents_offset + index * sizeof(struct workload_extent),
                          "extent of stream %" PRIu32 " is out of order", map->extents[index].stream);
  if (words != header->words)
    return trace_error_at(error, map->path, 32, "the header says %" PRIu64 " words, the extents hold %" PRIu64,
                          header->words, words);
  uint64_t ops = 0;
  for (uint32_t thread = 0; thread < header->threads; thread++) {
    if (map->op_counts[thread] > header->ops - ops)
      return trace_error_at(error, map->path, header->op_counts_offset + 8 * (uint64_t)thread,
                            "op counts exceed the header's %" PRIu64, header->ops);
    ops += map->op_counts[thread];
  }
  if (ops != header->ops || header->ops > header->words)
    return trace_error_at(error, map->path, 24, "the header says %" PRIu64 " ops, the threads have %" PRIu64,
                          header->ops, ops);
  return 0;
}

int workload_map(struct workload_map *map, int fd, const char *path, struct trace_error *error) {
  *map = (struct workload_map){.path = path, .fd = fd};
  struct stat about;
  if (fstat(fd, &about) != 0)
    return trace_error_errno(error, path, "can't read");
  if (!S_ISREG(about.st_mode))
    return trace_error_set(error, path, "not a regular file, and a workload is read at many places");
  map->file_bytes = (uint64_t)about.st_size;
  if (map->file_bytes < WORKLOAD_HEADER_BYTES)
    return trace_error_at(error, path, map->file_bytes, "ends inside the workload's header");
  /* Shared: its OS pages then count as RssFile, and may be dropped at any time. */
  void *bytes = mmap(NULL, map->file_bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (bytes == MAP_FAILED)
    return trace_error_errno(error, path, "can't map");
  map->bytes = bytes;
  memcpy(&map->header, bytes, sizeof map->header);
  if (check_header(map, error) != 0)
    return -1;
  const struct workload_header *header = &map->header;
  if (!table_fits(map, header->extents_offset, header->extents, sizeof(struct workload_extent)))
    return trace_error_at(error, path, 88, "extent table outside the file");
  if (!table_fits(map, header->op_counts_offset, header->threads, sizeof(uint64_t)))
    return trace_error_at(error, path, 120, "op counts outside the file");
  map->extents = (const struct workload_extent *)(map->bytes + header->extents_offset);
  map->op_counts = (const uint64_t *)(map->bytes + header->op_counts_offset);
  map->first_extent = os_map((header->threads + 3ull) * sizeof *map->first_extent, true);
  if (!map->first_extent)
    return trace_error_errno(error, path, "no memory for the extents of its streams");
  return check_extents(map, error);
}

void workload_unmap(struct workload_map *map) {
  if (map->bytes)
    munmap((void *)map->bytes, map->file_bytes);
  os_unmap(map->first_extent, (map->header.threads + 3ull) * sizeof *map->first_extent);
}

int workload_check_schedule(const struct workload_map *map, struct trace_error *error) {
  uint32_t threads = map->header.threads;
  struct stream schedule;
  uint64_t buffer[4096];
  stream_open(&schedule, map, threads, buffer, sizeof buffer / sizeof *buffer);
  uint64_t bytes = (threads + 1ull) * sizeof(uint64_t);
  uint64_t *ops = os_map(bytes, true);
  if (!ops)
    return trace_error_errno(error, map->path, "no memory to check the schedule");
  int status = 0;
  while (status == 0 && (schedule.at != schedule.end || stream_refill(&schedule))) {
    uint64_t word = *schedule.at++;
    uint32_t thread = (uint32_t)word;
    if (thread >= threads || (word >> 32) == 0)
      status = trace_error_at(error, map->path, stream_offset(&schedule, schedule.at - 1), "bad run in the schedule");
    else
      ops[thread] += word >> 32;
  }
  if (status == 0 && schedule.failed)
    status = trace_error_errno(error, map->path, "can't read its schedule");
  for (uint32_t thread = 0; status == 0 && thread < threads; thread++) {
    if (ops[thread] != map->op_counts[thread])
      status = trace_error_at(error, map->path, map->header.op_counts_offset + 8 * (uint64_t)thread,
                              "thread %" PRIu32 " has %" PRIu64 " ops, the schedule %" PRIu64, thread,
                              map->op_counts[thread], ops[thread]);
  }
  os_unmap(ops, bytes);
  return status;
}

void stream_open(struct stream *stream, const struct workload_map *map, uint32_t number, uint64_t *buffer,
                 uint32_t buffer_words) {
  *stream = (struct stream){.map = map,
                            .buffer = buffer,
                            .buffer_words = buffer_words,
                            .extent = map->first_extent[number],
                            .last_extent = map->first_extent[number + 1]};
}

/* One reader at a time moves the mark; the others go on. */
static void read_ahead(const struct workload_map *map, uint64_t offset) {
  uint64_t mark = atomic_load_explicit(&read_ahead_to, memory_order_relaxed);
  if (offset + READ_AHEAD_BYTES <= mark || mark >= map->file_bytes)
    return;
  uint64_t first = mark > offset ? mark : offset;
  if (atomic_compare_exchange_strong(&read_ahead_to, &mark, first + READ_AHEAD_BYTES))
    posix_fadvise(map->fd, (off_t)first, READ_AHEAD_BYTES, POSIX_FADV_WILLNEED);
}

bool stream_refill(struct stream *stream) {
  if (stream->words_left == 0) {
    if (stream->extent == stream->last_extent)
      return false;
    const struct workload_extent *extent = &stream->map->extents[stream->extent++];
    stream->next_offset = extent->offset;
    stream->words_left = extent->words;
  }
  uint32_t words = stream->words_left < stream->buffer_words ? stream->words_left : stream->buffer_words;
  read_ahead(stream->map, stream->next_offset);
  stream->at = stream->end = stream->buffer;
  stream->offset = stream->next_offset;
  if (os_pread_all(stream->map->fd, stream->buffer, words * sizeof *stream->buffer, stream->offset) != 0) {
    stream->failed = true;
    return false;
  }
  stream->end += words;
  stream->next_offset += words * sizeof *stream->buffer;
  stream->words_left -= words;
  return true;
}

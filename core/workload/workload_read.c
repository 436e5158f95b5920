/* SPDX-License-Identifier: MIT */
#include "core/workload/workload_read.h"

#include "core/base/assert.h"
#include "core/base/os.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum {
  MAX_INFO_BYTES = 16 << 20,
  READ_AHEAD_BYTES = 8 << 20, /* read from the disk at a time, ahead of the most advanced stream */
};

static _Atomic uint64_t read_ahead_to;

/* Is a table of count entries inside the file, aligned and behind the header? */
static bool inside(const struct workload *workload, uint64_t offset, uint64_t count, uint64_t entry_bytes) {
  return offset % 8 == 0 && offset >= WORKLOAD_HEADER_BYTES && offset <= workload->file_bytes &&
         count <= (workload->file_bytes - offset) / entry_bytes;
}

static int map_file(struct workload *workload, struct error *error) {
  struct stat status;
  if (fstat(workload->fd, &status) != 0)
    return error_errno(error, workload->path, "can't read");
  if (!S_ISREG(status.st_mode))
    return error_set(error, workload->path, "not a regular file, and a workload is read at many places");
  uint64_t bytes = (uint64_t)status.st_size;
  if (bytes < WORKLOAD_HEADER_BYTES)
    return error_at(error, workload->path, bytes, "not a heaptape workload: ends inside the header");
  /* Shared: its OS pages then count as RssFile, and may be dropped at any time. */
  void *memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, workload->fd, 0);
  if (memory == MAP_FAILED)
    return error_errno(error, workload->path, "can't map");
  workload->bytes = memory;
  workload->file_bytes = bytes;
  memcpy(&workload->header, memory, sizeof workload->header);
  return 0;
}

static int check_counts(const struct workload *workload, struct error *error) {
  const struct workload_header *header = &workload->header;
  const char *path = workload->path;
  if (header->file_bytes != workload->file_bytes)
    return error_at(error, path, 16, "the header says %" PRIu64 " bytes, the file has %" PRIu64, header->file_bytes,
                    workload->file_bytes);
  if (header->threads > WORKLOAD_MAX_THREADS)
    return error_at(error, path, 40, "%" PRIu32 " threads are more than the format allows", header->threads);
  /* Each slot has a first op, which takes a word, so a table of slots is never much larger than the file. */
  if (header->slots == WORKLOAD_NO_SLOT || header->slots > workload->file_bytes / sizeof(uint64_t))
    return error_at(error, path, 44, "more slots than the file has room for ops");
  if (!inside(workload, header->extents_offset, header->extents, sizeof(struct workload_extent)))
    return error_at(error, path, 88, "extent table is not inside the file");
  if (header->info_bytes > MAX_INFO_BYTES || !inside(workload, header->info_offset, header->info_bytes, 1))
    return error_at(error, path, 104, "info is not inside the file, or longer than 16 MiB");
  if (!inside(workload, header->op_counts_offset, header->threads, sizeof(uint64_t)))
    return error_at(error, path, 120, "op counts are not inside the file");
  return 0;
}

static int check_header(const struct workload *workload, struct error *error) {
  const struct workload_header *header = &workload->header;
  if (memcmp(header->magic, WORKLOAD_MAGIC, sizeof header->magic) != 0)
    return error_at(error, workload->path, 0, "not a heaptape workload");
  if (header->version != WORKLOAD_VERSION || header->header_bytes != WORKLOAD_HEADER_BYTES)
    return error_at(error, workload->path, 8, "workload version %" PRIu32 "; this reader knows version %d",
                    header->version, WORKLOAD_VERSION);
  if (header->crc32 != crc32(0, (const Bytef *)header, offsetof(struct workload_header, crc32)))
    return error_at(error, workload->path, 252, "the header fails its checksum");
  if (header->regions > WORKLOAD_MOST_REGIONS)
    return error_at(error, workload->path, 128, "more isolated heaps than a workload can have");
  return check_counts(workload, error);
}

/* Checks order and bounds of the extents and fills in first_extent. */
static int index_extents(struct workload *workload, struct error *error) {
  const struct workload_header *header = &workload->header;
  uint32_t stream = 0, streams = header->threads + 2;
  uint64_t words = 0;
  for (uint64_t index = 0; index < header->extents; index++) {
    const struct workload_extent *extent = &workload->extents[index];
    uint64_t place = header->extents_offset + index * sizeof *extent;
    if (extent->stream >= streams || extent->stream < stream)
      return error_at(error, workload->path, place,
                      "extents are not sorted by stream, or of a stream that does not exist");
    if (extent->words == 0 || !inside(workload, extent->offset, extent->words, sizeof(uint64_t)))
      return error_at(error, workload->path, place, "extent is empty or not inside the file");
    while (stream < extent->stream)
      workload->first_extent[++stream] = index;
    words += stream < header->threads ? extent->words : 0;
  }
  while (stream < streams)
    workload->first_extent[++stream] = header->extents;
  if (words != header->words)
    return error_at(error, workload->path, 32, "the header says %" PRIu64 " words, the streams have %" PRIu64,
                    header->words, words);
  return 0;
}

static int check_op_counts(const struct workload *workload, struct error *error) {
  const struct workload_header *header = &workload->header;
  uint64_t ops = 0;
  for (uint32_t thread = 0; thread < header->threads; thread++) {
    if (workload->op_counts[thread] > header->ops - ops)
      return error_at(error, workload->path, header->op_counts_offset + 8 * (uint64_t)thread,
                      "op counts exceed the header's %" PRIu64, header->ops);
    ops += workload->op_counts[thread];
  }
  if (ops != header->ops || ops > header->words)
    return error_at(error, workload->path, 24, "the header says %" PRIu64 " ops, the threads have %" PRIu64,
                    header->ops, ops);
  return 0;
}

/* A part of the file, for the check that no two overlap. */
struct section {
  uint64_t offset, bytes;
};

/* Sifts the section at root down in the heap of the first count sections. */
static void sink(struct section *sections, uint64_t root, uint64_t count) {
  struct section sinking = sections[root];
  for (uint64_t child; (child = 2 * root + 1) < count; root = child) {
    if (child + 1 < count && sections[child + 1].offset > sections[child].offset)
      child++;
    if (sections[child].offset <= sinking.offset)
      break;
    sections[root] = sections[child];
  }
  sections[root] = sinking;
}

/* By rising offset. Our own heapsort, as libc's qsort calls malloc. */
static void sort_sections(struct section *sections, uint64_t count) {
  for (uint64_t root = count / 2; root-- > 0;)
    sink(sections, root, count);
  for (uint64_t last = count; last-- > 1;) {
    struct section largest = sections[0];
    sections[0] = sections[last];
    sections[last] = largest;
    sink(sections, 0, last);
  }
}

static int check_overlap(const struct workload *workload, struct error *error) {
  const struct workload_header *header = &workload->header;
  uint64_t count = header->extents + 3;
  struct section *sections = os_map(count * sizeof *sections, true);
  if (!sections)
    return error_errno(error, workload->path, "no memory to check its extents");
  for (uint64_t i = 0; i < header->extents; i++)
    sections[i] = (struct section){workload->extents[i].offset, workload->extents[i].words * sizeof(uint64_t)};
  sections[count - 3] = (struct section){header->extents_offset, header->extents * sizeof(struct workload_extent)};
  sections[count - 2] = (struct section){header->info_offset, header->info_bytes};
  sections[count - 1] = (struct section){header->op_counts_offset, header->threads * sizeof(uint64_t)};
  sort_sections(sections, count);
  uint64_t end = WORKLOAD_HEADER_BYTES;
  int result = 0;
  for (uint64_t i = 0; i < count && result == 0; i++) {
    if (sections[i].bytes == 0)
      continue;
    if (sections[i].offset < end)
      result = error_at(error, workload->path, sections[i].offset, "sections overlap");
    end = sections[i].offset + sections[i].bytes;
  }
  os_unmap(sections, count * sizeof *sections);
  return result;
}

static int check_tables(struct workload *workload, struct error *error) {
  const struct workload_header *header = &workload->header;
  workload->extents = (const struct workload_extent *)(workload->bytes + header->extents_offset);
  workload->op_counts = (const uint64_t *)(workload->bytes + header->op_counts_offset);
  workload->first_extent = os_map((header->threads + 3ull) * sizeof *workload->first_extent, true);
  if (!workload->first_extent)
    return error_errno(error, workload->path, "no memory for the extents of its streams");
  if (index_extents(workload, error) != 0 || check_overlap(workload, error) != 0)
    return -1;
  return check_op_counts(workload, error);
}

int workload_open_fd(struct workload *workload, int fd, const char *path, struct error *error) {
  *workload = (struct workload){.path = path, .fd = fd};
  if (map_file(workload, error) == 0 && check_header(workload, error) == 0 && check_tables(workload, error) == 0)
    return 0;
  workload_close(workload);
  return -1;
}

int workload_open(struct workload *workload, const char *path, struct error *error) {
  *workload = (struct workload){0};
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return error_errno(error, path, "can't open");
  int result = workload_open_fd(workload, fd, path, error);
  close(fd);
  if (result == 0)
    workload->fd = -1;
  return result;
}

void workload_close(struct workload *workload) {
  if (workload->bytes)
    munmap((void *)workload->bytes, workload->file_bytes);
  if (workload->first_extent)
    os_unmap(workload->first_extent, (workload->header.threads + 3ull) * sizeof *workload->first_extent);
  *workload = (struct workload){0};
}

const char *workload_info(const struct workload *workload, size_t *bytes) {
  *bytes = workload->header.info_bytes;
  if (*bytes > 0)
    return (const char *)workload->bytes + workload->header.info_offset;
  *bytes = 2;
  return "{}";
}

void workload_stream_open_buffered(struct workload_stream *stream, const struct workload *workload, uint32_t number,
                                   uint64_t *buffer, uint32_t buffer_words) {
  *stream = (struct workload_stream){.workload = workload,
                                     .buffer = buffer,
                                     .buffer_words = buffer_words,
                                     .extent = workload->first_extent[number],
                                     .last_extent = workload->first_extent[number + 1]};
}

void workload_stream_open(struct workload_stream *stream, const struct workload *workload, uint32_t number) {
  workload_stream_open_buffered(stream, workload, number, NULL, 0);
}

/* One reader at a time moves the mark; others do not wait for it. */
static void read_ahead(const struct workload *workload, uint64_t offset) {
  uint64_t mark = atomic_load_explicit(&read_ahead_to, memory_order_relaxed);
  if (offset + READ_AHEAD_BYTES <= mark || mark >= workload->file_bytes)
    return;
  uint64_t first = mark > offset ? mark : offset;
  if (atomic_compare_exchange_strong(&read_ahead_to, &mark, first + READ_AHEAD_BYTES))
    posix_fadvise(workload->fd, (off_t)first, READ_AHEAD_BYTES, POSIX_FADV_WILLNEED);
}

static bool fill_buffer(struct workload_stream *stream, uint32_t words) {
  read_ahead(stream->workload, stream->offset);
  return os_pread_all(stream->workload->fd, stream->buffer, words * sizeof *stream->buffer, stream->offset) == 0;
}

bool workload_stream_refill(struct workload_stream *stream) {
  if (stream->words_left == 0) {
    if (stream->extent == stream->last_extent)
      return false;
    const struct workload_extent *extent = &stream->workload->extents[stream->extent++];
    stream->next_offset = extent->offset;
    stream->words_left = extent->words;
  }
  uint32_t words =
      stream->buffer && stream->buffer_words < stream->words_left ? stream->buffer_words : stream->words_left;
  stream->offset = stream->next_offset;
  HT_ASSERT(words > 0 && inside(stream->workload, stream->offset, words, sizeof *stream->at));
  stream->first = stream->buffer ? stream->buffer : (const uint64_t *)(stream->workload->bytes + stream->offset);
  stream->at = stream->end = stream->first;
  if (stream->buffer && !fill_buffer(stream, words)) {
    stream->failed = true;
    return false;
  }
  stream->end += words;
  stream->next_offset += words * sizeof *stream->at;
  stream->words_left -= words;
  return true;
}

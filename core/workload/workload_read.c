#include "core/workload/workload_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { MAX_INFO_BYTES = 16 << 20 };

/* A part of the file, for the proof that no two overlap. */
struct section {
  uint64_t offset, bytes;
};

static int map_file(struct workload *workload, const char *path, struct trace_error *error) {
  struct stat status;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &status) != 0) {
    trace_error_errno(error, path, "can't open");
  } else if (!S_ISREG(status.st_mode)) {
    trace_error_set(error, path, "not a regular file");
  } else if (status.st_size < WORKLOAD_HEADER_BYTES) {
    trace_error_set(error, path, "not a heaptape workload (%jd bytes are too few)", (intmax_t)status.st_size);
  } else {
    void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) {
      trace_error_errno(error, path, "can't map");
    } else {
      workload->bytes = bytes;
      workload->mapped_bytes = (uint64_t)status.st_size;
      workload->header = bytes;
    }
  }
  if (fd >= 0)
    close(fd);
  return workload->bytes ? 0 : -1;
}

static bool inside(const struct workload *workload, uint64_t offset, uint64_t count, uint64_t each_bytes) {
  uint64_t bytes;
  return offset % 8 == 0 && offset >= WORKLOAD_HEADER_BYTES && !__builtin_mul_overflow(count, each_bytes, &bytes) &&
         offset <= workload->mapped_bytes && bytes <= workload->mapped_bytes - offset;
}

static int check_header(const struct workload *workload, struct trace_error *error) {
  const struct workload_header *header = workload->header;
  const char *path = workload->path;
  if (memcmp(header->magic, WORKLOAD_MAGIC, sizeof header->magic) != 0)
    return trace_error_at(error, path, 0, "not a heaptape workload");
  if (header->version != WORKLOAD_VERSION || header->header_bytes != WORKLOAD_HEADER_BYTES)
    return trace_error_at(error, path, 8, "workload version %" PRIu32 "; this reader knows version %d", header->version,
                          WORKLOAD_VERSION);
  if (header->crc32 != crc32(0, (const Bytef *)header, offsetof(struct workload_header, crc32)))
    return trace_error_at(error, path, 252, "header fails its checksum");
  if (header->file_bytes != workload->mapped_bytes)
    return trace_error_at(error, path, 16, "header says %" PRIu64 " bytes, the file has %" PRIu64, header->file_bytes,
                          workload->mapped_bytes);
  if (header->threads > WORKLOAD_MAX_THREADS || header->slots == WORKLOAD_NO_SLOT)
    return trace_error_at(error, path, 40, "more threads or slots than the format allows");
  /* Each slot has a first op, a word: a table of slots is never much larger than the file. */
  if (header->slots > workload->mapped_bytes / sizeof(uint64_t))
    return trace_error_at(error, path, 44, "more slots than the file has room for ops");
  if (!inside(workload, header->extents_offset, header->extents, sizeof(struct workload_extent)))
    return trace_error_at(error, path, 88, "extent table is not inside the file");
  if (header->info_bytes > MAX_INFO_BYTES || !inside(workload, header->info_offset, header->info_bytes, 1))
    return trace_error_at(error, path, 104, "info is not inside the file, or longer than 16 MiB");
  if (!inside(workload, header->op_counts_offset, header->threads, sizeof(uint64_t)))
    return trace_error_at(error, path, 120, "op counts are not inside the file");
  return 0;
}

/* Checks order and bounds of the extents and fills in first_extent. */
static int index_extents(struct workload *workload, struct trace_error *error) {
  const struct workload_header *header = workload->header;
  uint32_t streams = header->threads + 2;
  workload->first_extent = calloc(streams + 1, sizeof *workload->first_extent);
  if (!workload->first_extent)
    return trace_error_set(error, workload->path, "out of memory");
  uint32_t stream = 0;
  for (uint64_t i = 0; i < header->extents; i++) {
    const struct workload_extent *extent = &workload->extents[i];
    uint64_t place = header->extents_offset + i * sizeof *extent;
    if (extent->stream >= streams || extent->stream < stream)
      return trace_error_at(error, workload->path, place,
                            "extents are not sorted by stream, or of a stream that is not there");
    if (extent->words == 0 || !inside(workload, extent->offset, extent->words, sizeof(uint64_t)))
      return trace_error_at(error, workload->path, place, "extent is empty or not inside the file");
    while (stream < extent->stream)
      workload->first_extent[++stream] = i;
  }
  while (stream < streams)
    workload->first_extent[++stream] = header->extents;
  return 0;
}

static int compare_sections(const void *left, const void *right) {
  const struct section *a = left, *b = right;
  return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static int check_overlap(const struct workload *workload, struct trace_error *error) {
  const struct workload_header *header = workload->header;
  uint64_t count = header->extents + 3;
  struct section *sections = malloc(count * sizeof *sections);
  if (!sections)
    return trace_error_set(error, workload->path, "out of memory");
  for (uint64_t i = 0; i < header->extents; i++)
    sections[i] = (struct section){workload->extents[i].offset, workload->extents[i].words * sizeof(uint64_t)};
  sections[count - 3] = (struct section){header->extents_offset, header->extents * sizeof(struct workload_extent)};
  sections[count - 2] = (struct section){header->info_offset, header->info_bytes};
  sections[count - 1] = (struct section){header->op_counts_offset, header->threads * sizeof(uint64_t)};
  qsort(sections, count, sizeof *sections, compare_sections);
  uint64_t end = WORKLOAD_HEADER_BYTES;
  int result = 0;
  for (uint64_t i = 0; i < count && result == 0; i++) {
    if (sections[i].bytes == 0)
      continue;
    if (sections[i].offset < end)
      result = trace_error_at(error, workload->path, sections[i].offset, "sections overlap");
    end = sections[i].offset + sections[i].bytes;
  }
  free(sections);
  return result;
}

static int take_info(struct workload *workload, struct trace_error *error) {
  const struct workload_header *header = workload->header;
  workload->info_json = header->info_bytes
                            ? strndup((const char *)workload->bytes + header->info_offset, header->info_bytes)
                            : strdup("{}");
  return workload->info_json ? 0 : trace_error_set(error, workload->path, "out of memory");
}

int workload_open(struct workload *workload, const char *path, struct trace_error *error) {
  *workload = (struct workload){.path = strdup(path)};
  if (!workload->path)
    return trace_error_set(error, path, "out of memory");
  if (map_file(workload, path, error) != 0 || check_header(workload, error) != 0) {
    workload_close(workload);
    return -1;
  }
  workload->extents = (const struct workload_extent *)(workload->bytes + workload->header->extents_offset);
  workload->op_counts = (const uint64_t *)(workload->bytes + workload->header->op_counts_offset);
  if (index_extents(workload, error) != 0 || check_overlap(workload, error) != 0 || take_info(workload, error) != 0) {
    workload_close(workload);
    return -1;
  }
  return 0;
}

void workload_close(struct workload *workload) {
  if (workload->bytes)
    munmap((void *)workload->bytes, workload->mapped_bytes);
  free(workload->first_extent);
  free(workload->info_json);
  free(workload->path);
  *workload = (struct workload){0};
}

void workload_stream_open(struct workload_stream *stream, const struct workload *workload, uint32_t number) {
  *stream = (struct workload_stream){.workload = workload,
                                     .extent = workload->first_extent[number],
                                     .last_extent = workload->first_extent[number + 1]};
}

bool workload_stream_refill(struct workload_stream *stream) {
  if (stream->extent == stream->last_extent)
    return false;
  const struct workload_extent *extent = &stream->workload->extents[stream->extent++];
  stream->at = (const uint64_t *)(stream->workload->bytes + extent->offset);
  stream->end = stream->at + extent->words;
  return true;
}

uint64_t workload_stream_offset(const struct workload_stream *stream) {
  return (uint64_t)((const uint8_t *)(stream->at - 1) - stream->workload->bytes);
}

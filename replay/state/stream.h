/* Reads a workload file for replay: proves header and tables sound, and walks the words of each stream.

   Job: turn an untrusted file into words, without reading it all into memory. Not its job: what words mean (loop.c).
   Invariants: after workload_map every extent lies inside the file, in stream order, and the totals add up; a stream
   never reads outside its extents; memory is one small buffer per stream, so that a workload may be larger than memory.
   The words themselves are judged as they are replayed. Nothing here uses malloc.

   Header and tables are mapped, words are read into the buffer: mapping, faulting in and unmapping the words' OS pages
   cost 1.5 ns per word where a read costs 0.4, and its faults had to be told from the allocator's. */
#ifndef REPLAY_STATE_STREAM_H
#define REPLAY_STATE_STREAM_H

#include "core/base/error.h"
#include "core/workload/workload.h"

#include <stdbool.h>
#include <stddef.h>

struct workload_map {
  const char *path; /* the caller's, as is fd */
  int fd;
  const uint8_t *bytes;
  uint64_t file_bytes;
  struct workload_header header;
  const struct workload_extent *extents;
  const uint64_t *op_counts; /* one per thread */
  uint64_t
      *first_extent; /* of stream s: first_extent[s] .. first_extent[s + 1] - 1; threads + 3 entries, shared memory */
};

/* Maps the file open on fd and checks it. path and fd must outlive the map. Returns 0, or -1 with error filled in. */
int workload_map(struct workload_map *map, int fd, const char *path, struct trace_error *error);
void workload_unmap(struct workload_map *map);

/* Checks that the schedule's runs add up to each thread's op count. O(schedule). Returns 0, or -1 with error. */
int workload_check_schedule(const struct workload_map *map, struct trace_error *error);

struct stream {
  const uint64_t *at, *end; /* words to be read, in the buffer */
  const struct workload_map *map;
  uint64_t *buffer;
  uint32_t buffer_words, words_left; /* words_left: of the extent, not yet in the buffer */
  uint64_t offset, next_offset;      /* in the file, of the buffer's first word and of the extent's next */
  uint64_t extent, last_extent;      /* next one to visit; one past the last */
  bool failed;                       /* the file could not be read; errno says why */
};

/* buffer: the caller's, buffer_words of it, for as long as the stream is read. */
void stream_open(struct stream *stream, const struct workload_map *map, uint32_t number, uint64_t *buffer,
                 uint32_t buffer_words);

/* Moves on once at == end; false at the end of the stream, and where the file can't be read. */
bool stream_refill(struct stream *stream);

/* Does word lie in the stream's buffer? */
static inline bool stream_holds(const struct stream *stream, const uint64_t *word) {
  return word >= stream->buffer && word < stream->buffer + stream->buffer_words;
}

/* File offset of a word that lies in the buffer. */
static inline uint64_t stream_offset(const struct stream *stream, const uint64_t *word) {
  return stream->offset + (uint64_t)((const uint8_t *)word - (const uint8_t *)stream->buffer);
}

#endif

/* Reads a workload file for replay: proves header and tables sound, and walks the words of each stream.

   Job: turn an untrusted file into words, without reading it all into memory. Not its job: what words mean (loop.c).
   Invariants: after workload_map every extent lies inside the file, in stream order, and the totals add up; a stream
   never reads outside its extents; what a stream has passed is given back to the kernel, so that a workload may be
   larger than memory. The words themselves are judged as they are replayed. Nothing here uses malloc. */
#ifndef REPLAY_STREAM_H
#define REPLAY_STREAM_H

#include "convert/workload.h"
#include "trace/error.h"

#include <stdbool.h>
#include <stddef.h>

struct workload_map {
  const char *path; /* the caller's */
  const uint8_t *bytes;
  uint64_t file_bytes;
  struct workload_header header;
  const struct workload_extent *extents;
  const uint64_t *op_counts; /* one per thread */
  uint64_t
      *first_extent; /* of stream s: first_extent[s] .. first_extent[s + 1] - 1; threads + 3 entries, shared memory */
  bool prefault_exactly; /* read each OS page of an extent ahead, so that page faults can be told apart (memory pass) */
};

/* Maps the file open on fd and checks it. path must outlive the map. Returns 0, or -1 with error filled in. */
int workload_map(struct workload_map *map, int fd, const char *path, struct trace_error *error);
void workload_unmap(struct workload_map *map);

/* Checks that the schedule's runs add up to each thread's op count. O(schedule). Returns 0, or -1 with error. */
int workload_check_schedule(const struct workload_map *map, struct trace_error *error);

struct stream {
  const uint64_t *at, *end;           /* words to be read, mapped */
  const uint64_t *chunk, *extent_end; /* at's first value; where the words of the extent end */
  struct workload_map *map;
  uint64_t extent, last_extent; /* next one to visit; one past the last */
  uint64_t faults;              /* page faults taken for this stream's words, where prefault_exactly */
};

void stream_open(struct stream *stream, struct workload_map *map, uint32_t number);

/* Moves on once at == end; false at the end of the stream. */
bool stream_refill(struct stream *stream);

/* File offset of a word that lies in the map. */
static inline uint64_t stream_offset(const struct stream *stream, const uint64_t *word) {
  return (uint64_t)((const uint8_t *)word - stream->map->bytes);
}

#endif

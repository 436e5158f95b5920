/* Maps a workload file (WORKLOAD.md) and proves that its header and tables are sound, so that its streams can be
   walked.

   Not its job: whether the words are a legal program (core/workload/workload_check.h).
   Invariants: after workload_open every extent lies inside the file and no two sections overlap; any file at all gives
   a mapping or one error. A file that another process truncates while it is mapped raises SIGBUS, as mappings do. A
   mapping may be read by many threads. Allocates O(extents + threads) with malloc. */
#ifndef CORE_WORKLOAD_WORKLOAD_READ_H
#define CORE_WORKLOAD_WORKLOAD_READ_H

#include "core/base/error.h"
#include "core/workload/workload.h"

#include <stdbool.h>
#include <stddef.h>

struct workload {
  char *path;
  const uint8_t *bytes; /* the whole file */
  uint64_t mapped_bytes;
  const struct workload_header *header;
  const struct workload_extent *extents; /* by stream */
  const uint64_t *op_counts;             /* one per thread */
  uint64_t *first_extent; /* threads + 3: extents of stream s are first_extent[s] .. first_extent[s + 1] - 1 */
  char *info_json;        /* NUL-terminated; "{}" where the file has none */
};

/* Returns 0, or -1 with error filled in; then *workload is zeroed. */
int workload_open(struct workload *workload, const char *path, struct trace_error *error);
void workload_close(struct workload *workload);

/* A walk over the words of one stream. */
struct workload_stream {
  const struct workload *workload;
  const uint64_t *at, *end;
  uint64_t extent, last_extent; /* next one to visit; one past the stream's last */
};

/* stream: 0 .. threads + 1. */
void workload_stream_open(struct workload_stream *stream, const struct workload *workload, uint32_t number);

/* Moves to the next extent that has words; false at the stream's end. */
bool workload_stream_refill(struct workload_stream *stream);

static inline bool workload_stream_next(struct workload_stream *stream, uint64_t *word) {
  if (stream->at == stream->end && !workload_stream_refill(stream))
    return false;
  *word = *stream->at++;
  return true;
}

/* Offset in the file of the word that workload_stream_next gave last. */
uint64_t workload_stream_offset(const struct workload_stream *stream);

#endif

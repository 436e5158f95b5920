/* SPDX-License-Identifier: MIT */
/* Maps a workload file (WORKLOAD.md), checks its header and tables, and walks the words of its streams. The one reader,
   used by the replay engine and by all code that converts, checks and prints workloads.

   Job: turn an untrusted file into words. Not its job: words into ops (workload_ops.h), the proof that they are a legal
   program (workload_check.h). Invariants: once a workload is open, every extent is inside the file and in the order of
   streams, no two sections overlap, and words and op counts add up to the header's; any file at all yields a workload
   or one error. A stream never returns a word from outside its extents. Nothing here calls malloc, as the engine must
   not. A workload may be read by many threads.

   A stream is walked in the mapping, or read into the caller's buffer. The engine uses a buffer: mapping, faulting in
   and unmapping the words' OS pages cost it 1.5 ns per word, a read 0.4; its page faults would have to be separated
   from the allocator's; and a workload may be larger than memory. A file that another process truncates while it is
   mapped raises SIGBUS, as mappings do; a read fails. */
#pragma once

#include "core/base/error.h"
#include "core/workload/workload.h"

#include <stdbool.h>
#include <stddef.h>

struct workload {
  const char *path;     /* for errors; owned by the caller */
  int fd;               /* owned by the caller; -1: streams are walked in the mapping only */
  const uint8_t *bytes; /* the whole file */
  uint64_t file_bytes;
  struct workload_header header;         /* a copy, so that it can't change after the check */
  const struct workload_extent *extents; /* by stream */
  const uint64_t *op_counts;             /* one per thread */
  uint64_t *first_extent; /* threads + 3: extents of stream s are first_extent[s] .. first_extent[s + 1] - 1 */
};

/* Opens the file at path. Returns 0, or -1 with error filled in; then *workload is zeroed. path must outlive it. */
int workload_open(struct workload *workload, const char *path, struct error *error);

/* The same for the file open on fd, which must outlive *workload too, and stays open. */
int workload_open_fd(struct workload *workload, int fd, const char *path, struct error *error);

void workload_close(struct workload *workload);

/* The info JSON, which is not NUL-terminated; "{}" where the file has none. It is in the mapping. */
const char *workload_info(const struct workload *workload, size_t *bytes);

/* A walk over the words of one stream. */
struct workload_stream {
  const uint64_t *at, *end; /* words to return */
  const struct workload *workload;
  const uint64_t *first;             /* of the words that at and end point into; its place in the file is `offset` */
  uint64_t *buffer;                  /* NULL: the stream is walked in the mapping */
  uint32_t buffer_words, words_left; /* words_left: of the extent, not yet in the buffer */
  uint64_t offset, next_offset;      /* next_offset: of the extent's next word that is not yet in the buffer */
  uint64_t extent, last_extent;      /* next one to visit; one past the stream's last */
  bool failed;                       /* the file could not be read; errno has the reason */
};

/* number: 0 .. threads + 1. */
void workload_stream_open(struct workload_stream *stream, const struct workload *workload, uint32_t number);

/* The same, read into the caller's buffer of buffer_words words, which must outlive the stream. */
void workload_stream_open_buffered(struct workload_stream *stream, const struct workload *workload, uint32_t number,
                                   uint64_t *buffer, uint32_t buffer_words);

/* Loads the next words once at == end; false at the stream's end, and where the file can't be read. */
bool workload_stream_refill(struct workload_stream *stream);

static inline bool workload_stream_next(struct workload_stream *stream, uint64_t *word) {
  if (stream->at == stream->end && !workload_stream_refill(stream))
    return false;
  *word = *stream->at++;
  return true;
}

/* Is word in the stream's buffer? */
static inline bool workload_stream_holds(const struct workload_stream *stream, const uint64_t *word) {
  return word >= stream->buffer && word < stream->buffer + stream->buffer_words;
}

/* Offset in the file of a word from stream->first up to stream->end. */
static inline uint64_t workload_stream_offset_of(const struct workload_stream *stream, const uint64_t *word) {
  return stream->offset + (uint64_t)((const uint8_t *)word - (const uint8_t *)stream->first);
}

/* Offset in the file of the word that workload_stream_next returned last. */
static inline uint64_t workload_stream_offset(const struct workload_stream *stream) {
  return workload_stream_offset_of(stream, stream->at - 1);
}

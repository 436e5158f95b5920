/* SPDX-License-Identifier: MIT */
/* Maps a workload file (WORKLOAD.md), checks its header and tables, and walks the words of its streams. The one reader,
   used by the replay engine and by all code that converts, checks and prints workloads.

   Job: turn an untrusted file into words; words into ops in their recorded total order, each with all words that belong
   to it (workload_ops.c); prove that the words are a legal program (workload_check.c). Invariants: once a workload is
   open, every extent is inside the file and in the order of streams, no two sections overlap, and words and op counts
   add up to the header's; any file at all yields a workload or one error. A stream never returns a word from outside
   its extents. workload_read.c calls no malloc, as the engine must not. A workload may be read by many threads.

   A stream is walked in the mapping, or read into the caller's buffer. The engine uses a buffer: mapping, faulting in
   and unmapping the words' OS pages cost it 1.5 ns per word, a read 0.4; its page faults would have to be separated
   from the allocator's; and a workload may be larger than memory. A file that another process truncates while it is
   mapped raises SIGBUS, as mappings do; a read fails. */
#pragma once

#include "core/base/error.h"
#include "core/base/vector.h"
#include "core/trace/access_stream.h"
#include "core/workload/workload.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

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

/* Walks a workload's ops in their recorded total order (WORKLOAD.md), each with all words that belong to it.

   A workload that can't be walked (its schedule does not fit the streams) yields one error, after the ops that could be
   walked. Memory: O(threads + words between two ops). Allocates with malloc. Not thread-safe. */
struct workload_ops_op {
  uint64_t position, size_bytes, param, time_ns; /* time_ns: of the last op that had a time */
  uint32_t thread, slot;
  uint64_t touched; /* touched_payload; 0: not known */
  uint64_t region;  /* isolated heap; 0: none */
  uint8_t call;     /* id and flags: a legal combination */
  bool has_time;
  struct buffer waits, starts; /* words */
};

struct workload_ops {
  const struct workload *workload;
  struct workload_stream schedule, *streams; /* streams: of the threads */
  uint64_t run_ops;                          /* ops left in the schedule's present word */
  struct workload_ops_op op;                 /* the last one returned */
};

/* The workload must outlive the walk. Returns 0, or -1 with error; call workload_ops_close in either case. */
int workload_ops_open(struct workload_ops *ops, const struct workload *workload, struct error *error);
void workload_ops_close(struct workload_ops *ops);

/* Advances to the next op. Returns 1; 0 at the end; -1 with error. */
int workload_ops_next(struct workload_ops *ops, struct error *error);

/* Proves a workload legal (WORKLOAD.md, legality), walking all streams once in the order of the schedule.

   Memory is O(slots + threads + pairs of threads that wait for each other). Not thread-safe. */
struct workload_proof {
  uint64_t ops, words, waits, starts;
  uint64_t live_at_end;
  uint64_t peak_live_bytes, peak_live_objects;
  uint64_t objects_at_peak; /* live when live bytes were first at their peak */
  uint32_t threads, slots;
};

/* Returns 0, or -1 with the first error and its place. */
int workload_check(const struct workload *workload, struct workload_proof *proof, struct error *error);

/* {"ok": true, "events": ...}: only a legal workload has a proof. */
json_t *workload_proof_json(const struct workload_proof *proof);
void workload_proof_print(const struct workload_proof *proof, FILE *out);

/* Reads the stream of data accesses of a workload (core/trace/access_stream.h), item by item.

   Job: the file, its header, complete items. Memory is a buffer. Not thread-safe. */

enum { ACCESSES_READ_BYTES = 1 << 16 };

struct accesses_reader {
  const char *path;
  FILE *file;
  uint32_t filter_bytes; /* from the header */
  uint64_t offset;       /* of the next item, in the file */
  struct access_coder coder;
  const uint8_t *at, *filled;
  uint8_t buffer[ACCESSES_READ_BYTES];
};

/* path must outlive the reader. Returns 0, or -1 with error; call accesses_reader_close in either case. */
int accesses_reader_open(struct accesses_reader *reader, const char *path, struct error *error);
void accesses_reader_close(struct accesses_reader *reader);

/* Returns 1, or 0 at the end of the file, or -1 with error. */
int accesses_reader_next(struct accesses_reader *reader, struct access_item *item, struct error *error);

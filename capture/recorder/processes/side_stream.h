/* SPDX-License-Identifier: MIT */
/* A stream that a process under our Valgrind tool sends beside its rings, for rows of its trace that are no events.

   Job: what the reading of rings and the collector need of it; who reads it is registered by being linked
   (REGISTER_SIDE_STREAM). Invariant: a stream is taken only after the rings were read, later than the stream: the
   events of its calls were written before its items. */
#pragma once

#include "capture/recorder/processes/process_state.h"
#include "core/base/registry.h"

/* The first member of the reader's own state. */
struct side_stream {
  const struct side_stream_reader *reader;
  int fd;
  const char *over; /* why no more of it is written; NULL: it is */
};

struct side_stream_reader {
  /* Makes the stream of a process that has none, and returns the tool's end, which the caller passes on and closes; -1
     with errno set. */
  int (*open)(struct recorded_process *process);

  size_t (*read)(struct side_stream *stream); /* the available bytes, up to the buffer's room; returns their number */
  void (*take)(struct side_stream *stream, struct recorded_process *process); /* writes their rows */

  /* Which thread of the trace has that serial number (RECORD_THREAD); that many calls of a thread are in the trace, or
     counted as missing. */
  void (*note_thread)(struct side_stream *stream, uint64_t serial, uint32_t thread);
  void (*count_calls)(struct side_stream *stream, uint32_t thread, uint64_t calls);

  void (*close)(struct side_stream *stream);
};

#define REGISTER_SIDE_STREAM(one) REGISTRY_ADD(side_streams, side_stream_reader, entry_##one, &one)
REGISTRY(side_streams, side_stream_reader);

/* NULL: there is none. */
static inline const struct side_stream_reader *side_stream_reader(void) {
  return REGISTRY_ONLY(side_streams);
}

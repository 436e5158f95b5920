/* SPDX-License-Identifier: MIT */
/* The stream of data accesses of one process (core/trace/access_stream.h), on its way from the Valgrind tool to the
   trace.

   Job: reads the socket, splits the bytes into items. Not its job: threads' numbers, what is written. Invariants:
   memory is bounded: the tool waits while the buffer is full; what is read is not trusted. One thread. */
#pragma once

#include "core/trace/access_stream.h"

#include <stdbool.h>
#include <stddef.h>

enum { ACCESS_STREAM_BYTES = 1 << 20 };

/* All zero: there is no stream. */
struct access_stream {
  uint8_t *bytes; /* NULL: there is no stream */
  size_t used, taken;
  int fd;
  bool damaged;
  struct access_coder coder;
};

/* Makes the socket and returns the tool's end, which the caller passes on and closes; -1 with errno set. */
int access_stream_open(struct access_stream *stream);

/* Reads the available bytes, up to the buffer's room. Returns their number. */
size_t access_stream_read(struct access_stream *stream);

/* Takes the next item that was read. False: there is no complete one. */
bool access_stream_next(struct access_stream *stream, struct access_item *item);

void access_stream_close(struct access_stream *stream);

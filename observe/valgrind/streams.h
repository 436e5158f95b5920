/* SPDX-License-Identifier: GPL-2.0-only */
/* Which misses of the first level a stream prefetcher would have prevented.

   Job: does a line continue one of the last STREAMS streams of lines? A stream is a series of lines that goes upwards
   by one or two (pairs of adjacent lines) or downwards by one, within one OS page: hardware prefetchers see physical
   addresses and stop at its end. A line that begins a stream, and those of its first STREAM_STEPS steps, could not be
   foreseen; nor could those after a change of direction. Not its job: which lines to check. The simulation passes the
   lines that miss the first level; the outer levels see the same lines, so one table serves all levels. Invariants:
   streams are in the order of their last use, newest first; the oldest is replaced. Prefetches do not change the
   contents of a cache. */
#pragma once

#include <pub_tool_basics.h>

enum { STREAMS = 16, STREAM_STEPS = 2, STREAM_PAGE_LINES = 64 };

struct stream {
  UWord line;     /* the last */
  Word direction; /* 1: upwards, -1: downwards, 0: no step was made */
  UInt steps;     /* in that direction */
};

struct streams {
  struct stream rows[STREAMS];
  UInt count;
};

/* 1: upwards, -1: downwards, 0: the same line, 2: the line is not in that stream. */
static inline Word stream_step(const struct stream *stream, UWord line) {
  if (stream->line / STREAM_PAGE_LINES != line / STREAM_PAGE_LINES)
    return 2;
  Word distance = (Word)(line - stream->line);
  return distance == 2 ? 1 : distance >= -1 && distance <= 1 ? distance : 2;
}

/* Adds the line to the stream that it continues (the newest of several), or begins one. Returns whether that stream had
   made STREAM_STEPS steps in the same direction before. The same line again is not a step. */
static inline Bool streams_foresee(struct streams *streams, UWord line) {
  struct stream found = {line, 0, 0};
  UInt place = 0;
  Word step = 2;
  while (place < streams->count && (step = stream_step(&streams->rows[place], line)) == 2)
    place++;
  Bool foreseen = False;
  if (place < streams->count) {
    found = streams->rows[place];
    found.line = line;
    foreseen = step != 0 && step == found.direction && found.steps >= STREAM_STEPS;
    if (step != 0) {
      found.steps = step == found.direction ? found.steps + 1 : 1;
      found.direction = step;
    }
  } else if (streams->count < STREAMS) {
    streams->count++;
  } else {
    place--;
  }
  for (; place > 0; place--)
    streams->rows[place] = streams->rows[place - 1];
  streams->rows[0] = found;
  return foreseen;
}

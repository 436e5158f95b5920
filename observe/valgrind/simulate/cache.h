/* SPDX-License-Identifier: GPL-2.0-only */
/* A set-associative cache of blocks with least-recently-used replacement: a cache of lines, or a TLB, whose blocks are
   OS pages.

   Job: does an access hit? Invariants: a set's ways are in the order of their last use, newest first; each access makes
   its block the newest, hit or miss, read or write. This is cachegrind's model. */
#pragma once

#include <pub_tool_basics.h>

struct cache {
  UWord set_mask; /* sets - 1; their number is a power of two */
  UInt ways, block_shift;
  UWord *blocks; /* by set and way; CACHE_EMPTY: none */
};

#define CACHE_EMPTY (~(UWord)0)

/* Looks up block and makes it the newest of its set. Returns whether it was missing. */
static inline Bool cache_misses_block(struct cache *cache, UWord block) {
  UWord *set = cache->blocks + (block & cache->set_mask) * cache->ways;
  UWord moved = set[0];
  if (moved == block)
    return False;
  for (UInt way = 1; way < cache->ways; way++) {
    UWord here = set[way];
    set[way] = moved;
    if (here == block) {
      set[0] = block;
      return False;
    }
    moved = here;
  }
  set[0] = block;
  return True;
}

/* The same for all blocks that the access covers, at most two; one miss is counted where both are missing. */
static inline Bool cache_misses(struct cache *cache, Addr address, UWord bytes) {
  UWord first = address >> cache->block_shift, last = (address + bytes - 1) >> cache->block_shift;
  Bool missing = cache_misses_block(cache, first);
  if (last != first)
    missing |= cache_misses_block(cache, last);
  return missing;
}

/* A first-level TLB: a set-associative cache of OS pages with least-recently-used replacement, like cache.h, for many
   ways and many lookups.

   Each way has the time of its last use, and a table of hints has the place where a page was found last, so a hit costs
   the same whatever its age. cache.h, which moves a found block to the front, took 40 % longer for a whole simulation
   of perl with 64 ways. */

enum { TLB_HINTS = 1024 };

struct tlb {
  UWord set_mask;
  UInt ways;
  ULong clock;
  UWord *pages; /* by set and way; CACHE_EMPTY: none */
  ULong *used;  /* clock of the last use; 0: never */
  UInt hints[TLB_HINTS];
};

/* Looks up page and makes it the newest of its set. Returns whether it was missing. */
static inline Bool tlb_misses_page(struct tlb *tlb, UWord page) {
  UInt *hint = &tlb->hints[page % TLB_HINTS];
  tlb->clock++;
  if (tlb->pages[*hint] == page) {
    tlb->used[*hint] = tlb->clock;
    return False;
  }
  UInt first = (UInt)(page & tlb->set_mask) * tlb->ways, oldest = first;
  for (UInt entry = first; entry < first + tlb->ways; entry++) {
    if (tlb->pages[entry] == page) {
      tlb->used[entry] = tlb->clock;
      *hint = entry;
      return False;
    }
    if (tlb->used[entry] < tlb->used[oldest])
      oldest = entry;
  }
  tlb->pages[oldest] = page;
  tlb->used[oldest] = tlb->clock;
  *hint = oldest;
  return True;
}

/* Which misses of the first level a stream prefetcher would have prevented.

   Job: does a line continue one of the last STREAMS streams of lines? A stream is a series of lines that goes upwards
   by one or two (pairs of adjacent lines) or downwards by one, within one OS page: hardware prefetchers see physical
   addresses and stop at its end. A line that begins a stream, and those of its first STREAM_STEPS steps, could not be
   foreseen; nor could those after a change of direction. The simulation passes the lines that miss the first level; the
   outer levels see the same lines, so one table serves all levels. Invariants: streams are in the order of their last
   use, newest first; the oldest is replaced. Prefetches do not change the contents of a cache. */

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

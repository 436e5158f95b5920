/* SPDX-License-Identifier: MIT */
/* Cache-line sharing: which 64-byte lines hold live objects of more than one thread, as objects come and go. Threads
   that write to such a line take it from each other though they share no data (false sharing).

   An object's owner is the thread that acquired it, by malloc or by the latest realloc: addresses of reads and writes
   are not recorded, and the acquirer is the one thread that is sure to write to it. Who got it later is only seen at
   its release, and so of each pair of objects that shared a line it is also kept whether both were released by their
   owners (`used`): then each was its owner's to the end, and both threads had theirs while the line was shared. Bytes
   are those requested. Only the first and the last line of an object can be shared; lines in between are its own.
   Here, and not in convert/ or replay/, since both count: of recorded addresses, and of an allocator's under replay.

   Sampling makes it cheap: then only the lines of one OS page in so many are followed, chosen by a hash, and each of
   them counts for so many (so do the objects and pairs there), so that sums and means are estimates that tend to
   neither side. What is counted of objects, and of the lines that large objects fill, stays exact.

   Not its job: where objects and threads come from, output (line_sharing_json.h). Invariants: memory is O(live objects)
   where their numbers are used again, and none of it comes from malloc; an object that finds no room on a line
   (LINE_OBJECTS there: only objects that overlap can be so many), and a pair of threads that finds none in the table,
   are counted as left out. Not thread-safe. */
#pragma once

#include <stdint.h>

enum {
  LINE_BYTES = 64,
  LINE_OBJECTS = 64,
  LINE_SHARING_ROWS = 512,
  LINE_SHARING_SIZES = 22, /* up to 8, 16, 32, ... bytes, up to 8 MiB, and more */
  LINE_SHARING_PAIRS = 4096,
};

/* A figure that changes from op to op: after the latest one, its peak and the ops done when it was reached, and its sum
   over all ops. */
struct line_level {
  uint64_t now, peak, peak_position, sum;
};

struct line_sharing_row {
  uint64_t position; /* ops done at the end of this part of the progress; the figures are those then */
  uint64_t shared_lines, object_pairs, live_lines;
  uint64_t shared_lines_peak; /* in this part */
};

struct line_sharing_size {
  uint64_t objects, shared_objects; /* shared: shared a line with another thread's at any time */
  uint64_t pairs;                   /* once in the class of each of its two objects */
};

/* Pairs of objects of two threads, first < second. */
struct line_sharing_threads {
  uint32_t first, second;
  uint64_t pairs, now; /* pairs 0: empty */
  uint64_t sum;        /* over all ops, of `now`; wraps until line_sharing_end */
};

/* What is counted. Flat, so that it can lie in memory that processes share. */
struct line_sharing_counts {
  uint64_t sampled; /* one OS page in so many is followed; 1: all, and everything is exact */
  uint64_t ops, objects, shared_objects;
  uint64_t pairs, used_pairs; /* of objects, that came to share a line; both released by their owners */
  struct line_level shared_lines, object_pairs, live_lines;
  struct line_sharing_size sizes[LINE_SHARING_SIZES];
  struct line_sharing_threads threads[LINE_SHARING_PAIRS];
  uint64_t threads_left_out; /* pairs of objects */
  uint64_t objects_left_out; /* of a line */
  uint64_t row_ops, row_count;
  struct line_sharing_row rows[LINE_SHARING_ROWS + 1];
};

struct line_sharing;

/* counts: zeroed, the caller's, and outlives it. ops: how many are to come, for the rows. sampled: a power of two.
   NULL: no memory. */
struct line_sharing *line_sharing_begin(struct line_sharing_counts *counts, uint64_t ops, uint64_t sampled);

/* The thread has acquired the object: a number, small ones best, as memory is O(largest). If it is there already, that
   one is removed first. Returns 0, or -1: no memory. */
int line_sharing_add(struct line_sharing *sharing, uint32_t object, uint64_t address, uint64_t size_bytes,
                     uint32_t thread);

/* The thread releases it. One that is not there is none. */
void line_sharing_remove(struct line_sharing *sharing, uint32_t object, uint32_t thread);

/* An op is done: whatever it added and removed. Every op counts, so that means are over progress. */
void line_sharing_after_op(struct line_sharing *sharing);

/* Completes the counts and frees. */
void line_sharing_end(struct line_sharing *sharing);

/* The largest size in a class; UINT64_MAX for the last. */
static inline uint64_t line_sharing_size_last(unsigned class) {
  return class == LINE_SHARING_SIZES - 1 ? UINT64_MAX : (uint64_t)8 << class;
}

/* SPDX-License-Identifier: MIT */
/* Cache-line sharing: which 64-byte lines hold live objects of more than one thread, over time. Threads that write to
   such a line take it from each other although they share no data (false sharing).

   An object's owner is the thread that acquired it, by malloc or by the latest realloc: addresses of reads and writes
   are not recorded, and the acquirer is the one thread that is sure to write to it. Another user is only seen at its
   release. So each pair of objects that shared a line is also counted as `used` if both were released by their owners:
   then each was its owner's to the end, and both threads had their objects while the line was shared. Bytes are those
   requested. Only the first and the last line of an object can be shared; the lines between have no other object. This
   is in core/ since convert/ and replay/ both count: at recorded addresses, and at those of an allocator under replay.

   Sampling makes it cheap: then only the lines of one OS page in `sampled` are followed, chosen by a hash. Each of them
   counts `sampled` times, and so do the objects and pairs there, so that sums and means are unbiased estimates. The
   counts of objects, and of the lines that large objects fill, stay exact.

   Invariants: memory is O(live objects) where their numbers are used again, and none of it is from malloc. An object
   that finds no room on a line (which has LINE_OBJECTS already: only overlapping objects can be that many), and a pair
   of threads that finds no room in the table, are counted as left out. Not thread-safe. */
#pragma once

#include <jansson.h>
#include <stdint.h>

enum {
  LINE_BYTES = 64,
  LINE_OBJECTS = 64,
  LINE_SHARING_ROWS = 512,
  LINE_SHARING_SIZES = 22, /* up to 8, 16, 32, ... bytes, up to 8 MiB, and more */
  LINE_SHARING_PAIRS = 4096,
};

/* A figure that changes from op to op: its value after the latest op, its peak and the ops done when that was reached,
   and its sum over all ops. */
struct line_level {
  uint64_t now, peak, peak_position, sum;
};

struct line_sharing_row {
  uint64_t position; /* ops done at the end of this part of the progress; the figures are of that moment */
  uint64_t shared_lines, object_pairs, live_lines;
  uint64_t shared_lines_peak; /* in this part */
};

struct line_sharing_size {
  uint64_t objects, shared_objects; /* shared: shared a line with an object of another thread at any time */
  uint64_t pairs;                   /* each counts once in the class of each of its two objects */
};

/* Pairs of objects of two threads, first < second. */
struct line_sharing_threads {
  uint32_t first, second;
  uint64_t pairs, now; /* pairs 0: empty */
  uint64_t sum;        /* of `now` over all ops; wraps until line_sharing_end */
};

/* The counts. Flat, so that they can be in shared memory of processes. */
struct line_sharing_counts {
  uint64_t sampled; /* one OS page in this many is followed; 1: all, and everything is exact */
  uint64_t ops, objects, shared_objects;
  uint64_t pairs, used_pairs; /* pairs of objects that shared a line; those with both released by their owners */
  struct line_level shared_lines, object_pairs, live_lines;
  struct line_sharing_size sizes[LINE_SHARING_SIZES];
  struct line_sharing_threads threads[LINE_SHARING_PAIRS];
  uint64_t threads_left_out; /* pairs of objects */
  uint64_t objects_left_out; /* of a line */
  uint64_t row_ops, row_count;
  struct line_sharing_row rows[LINE_SHARING_ROWS + 1];
};

struct line_sharing;

/* counts: zeroed; the caller owns it and keeps it to line_sharing_end. ops: how many will follow, for the rows.
   sampled: a power of two. NULL: no memory. */
struct line_sharing *line_sharing_begin(struct line_sharing_counts *counts, uint64_t ops, uint64_t sampled);

/* The thread has acquired the object: a number, best a small one, as memory is O(largest). An object that already has
   this number is removed first. Returns 0, or -1: no memory. */
int line_sharing_add(struct line_sharing *sharing, uint32_t object, uint64_t address, uint64_t size_bytes,
                     uint32_t thread);

/* The thread releases it. An unknown object is ignored. */
void line_sharing_remove(struct line_sharing *sharing, uint32_t object, uint32_t thread);

/* An op is done, whether it added or removed objects or not. Every op counts, so that means are over progress. */
void line_sharing_after_op(struct line_sharing *sharing);

/* Completes the counts and frees. */
void line_sharing_end(struct line_sharing *sharing);

/* The largest size in a class; UINT64_MAX for the last. */
static inline uint64_t line_sharing_size_last(unsigned class) {
  return class == LINE_SHARING_SIZES - 1 ? UINT64_MAX : (uint64_t)8 << class;
}

/* Cache-line sharing as JSON, the same for a trace's own addresses and for a replay:

     {"line_bytes": 64, "sampled": 1 (all; else one OS page in that many), "ops", "objects", "shared_objects", "pairs",
     "used_pairs", "objects_left_out", "shared_lines" | "object_pairs" | "live_lines": {"end", "peak", "peak_position",
     "mean"}, "sizes": [[up to bytes (null: more), objects, shared objects, pairs], ...], "threads": [[thread, thread,
     pairs, mean pairs], ...], "threads_left_out": pairs, "progress": [[ops done, shared lines, object pairs, live
     lines, peak of shared lines since the row before], ...]}

   line_sharing.h defines each count; means are over ops; threads are the LINE_SHARING_THREADS_LISTED pairs of threads
   with the most pairs of objects, most first. */
enum { LINE_SHARING_THREADS_LISTED = 512 };

/* A new object, the caller's. Sorts counts->threads. */
json_t *line_sharing_json(struct line_sharing_counts *counts);

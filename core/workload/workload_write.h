/* SPDX-License-Identifier: MIT */
/* Writes a workload file (WORKLOAD.md): takes ops in their total order and stores each thread's words in growing
   extents.

   It numbers the ops, and so itself writes MARK, START, END, the schedule and the op counts. Invariants: memory is
   O(threads + extents) and a few KiB per thread when there are many threads; a word keeps its file offset, so that it
   can be patched long after it was written. Errors are sticky: check workload_writer_close. Not thread-safe. Allocates
   with malloc. The file is incomplete (and rejected by readers) until it is closed. */
#pragma once

#include "core/base/error.h"
#include "core/workload/workload.h"

#include <stddef.h>

struct workload_writer;

/* The header's figures that the writer does not count itself (as it does file bytes, ops, words, threads). */
struct workload_totals {
  uint32_t slots;
  uint64_t peak_live_bytes, peak_live_os_page_bytes, peak_live_objects, live_at_end, peak_position;
};

struct workload_time_points {
  const struct workload_time_point *at;
  size_t count;
};

/* Creates or truncates path. Returns 0, or -1 with error filled in; then *out is NULL. */
int workload_writer_open(struct workload_writer **out, const char *path, struct error *error);

/* Announces that the next op is of that thread. Threads are numbered in the order of their first ops: thread may be at
   most the number of those seen. Writes MARK where one is due, and START for a new thread (into the stream of the last
   op). Returns 0, or -1: no memory, the disk failed, or more threads than the format allows. */
int workload_begin_op(struct workload_writer *writer, uint32_t thread);

/* Between workload_begin_op and workload_put_op, of the same thread: */
void workload_put_wait(struct workload_writer *writer, uint32_t thread, uint32_t awaited_thread, uint64_t ops);
/* The recorded time of the op, from the beginning of the recording: written where WORKLOAD.md requires it. Returns the
   time before which the thread's next ops need none. */
uint64_t workload_put_time(struct workload_writer *writer, uint32_t thread, uint64_t time_ns);
/* Reserves a TOUCHED word, at first "not known"; returns its file offset for workload_patch. */
uint64_t workload_put_touched(struct workload_writer *writer, uint32_t thread);

/* size_bytes < 2^63 and param < 2^56; 0 where the call has none. */
struct workload_op {
  uint8_t call;  /* id and flags */
  uint32_t slot; /* WORKLOAD_NO_SLOT for NULL */
  uint64_t size_bytes, param;
  uint8_t region; /* isolated heap; 0: the allocator's */
};

/* The op itself, with SIZE_HIGH and PARAM words where they are needed. Returns the thread's number of ops, this one
   included. */
uint64_t workload_put_op(struct workload_writer *writer, uint32_t thread, const struct workload_op *op);

/* workload_begin_op to workload_put_op in one, for an op of one word (word_op): without wait, time or touched pages,
   region 0, less than 2^24 bytes, a call without param. Returns 0, having done nothing, where more than the word is
   due: then call the separate functions. */
uint64_t workload_put_plain_op(struct workload_writer *writer, uint32_t thread, uint64_t word);

/* Replaces the TOUCHED word at offset in the stream of thread. payload: touched_payload. */
void workload_patch_touched(struct workload_writer *writer, uint32_t thread, uint64_t offset, uint64_t payload);

/* The thread has no more ops: writes END and frees its memory. Optional; closing does it for all threads. */
void workload_end_thread(struct workload_writer *writer, uint32_t thread);

/* Number of ops so far: the position of the next one. Then the number of one thread's ops. */
uint64_t workload_position(const struct workload_writer *writer);
uint64_t workload_thread_ops(const struct workload_writer *writer, uint32_t thread);

/* Writes the time line (points by rising position, the first 0, the last the number of ops), info_json, extents and
   header, closes, frees. Returns 0, or -1 with error filled in, also for earlier errors. Frees the writer in either
   case. */
int workload_writer_close(struct workload_writer *writer, const struct workload_totals *totals,
                          struct workload_time_points line, const char *info_json, struct error *error);

/* Fills in error if writing has failed so far. */
void workload_writer_fail_reason(const struct workload_writer *writer, struct error *error);

/* Closes and frees without completing the file. writer may be NULL. */
void workload_writer_abandon(struct workload_writer *writer);

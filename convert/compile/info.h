/* SPDX-License-Identifier: MIT */
/* What a workload records about its trace besides the ops: the time line, the request sizes, the recorded process's
   memory, the calls (WORKLOAD.md: time line, info JSON). Fed op by op; memory is bounded by constants. Not
   thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "convert/history/trace_info.h"
#include "core/trace/read/trace_read.h"
#include "core/workload/statistics.h"
#include "core/workload/witness.h"

#include <jansson.h>

/* The members are for compile.c to read; estimated_bytes, rewritten and added are for it to set. */
struct compile_info {
  struct trace_reader *reader;
  struct trace_info trace;
  uint32_t slots;
  uint64_t calls[CALL_LIMIT];
  struct size_histogram sizes;
  struct recorded_samples samples;
  uint64_t stamp;           /* highest so far */
  uint64_t changed;         /* ops of which an argument was changed */
  uint64_t estimated_bytes; /* as reused.h has it */
  struct time_line time_line;
  json_t *added;     /* to objects of the info, by key; owned by compile.c. NULL: nothing */
  json_t *rewritten; /* what a rewriting did; owned by the rewriter. NULL: none */
};

/* Returns NULL with error. */
struct compile_info *compile_info_new(struct trace_reader *reader, struct error *error);

/* info may be NULL. */
void compile_info_free(struct compile_info *info);

/* Program time (program_clock.h) of the op passed last, in ns from the beginning of the recording; 0 if times are not
   known. */
static inline uint64_t compile_info_time_ns(const struct compile_info *info) {
  double recorded_ns = trace_stamp_ns(trace_reader_summary(info->reader), info->stamp);
  double taken_ns = program_clock_taken_ns(&info->samples.clock, info->stamp);
  return recorded_ns > taken_ns ? (uint64_t)(recorded_ns - taken_ns) : 0;
}

/* A point of the time line, before that op. */
static inline void compile_info_point(struct compile_info *info, uint64_t position,
                                      const struct history_state *before) {
  time_line_op(&info->time_line, &(struct workload_time_point){position, compile_info_time_ns(info), before->live_bytes,
                                                               before->live_objects});
}

static inline void compile_info_op(struct compile_info *info, uint64_t position, const struct history_op *op) {
  if (op->stamp > info->stamp) /* a repaired inversion has an older one */
    info->stamp = op->stamp;
  if (position == info->time_line.next_point || op->before->live_bytes > info->time_line.peak.live_bytes)
    compile_info_point(info, position, op->before);
  recorded_samples_advance(&info->samples, info->stamp, position);
  info->calls[op->call & CALL_ID_MASK]++;
  if (op->kind == HISTORY_ACQUIRE || op->kind == HISTORY_MOVE)
    size_histogram_add(&info->sizes, op->request_bytes);
}

/* After the last op; the points belong to info. */
const struct workload_time_point *compile_info_time_line(struct compile_info *info, const struct witness *witness,
                                                         size_t *count);

/* The info JSON, to be freed; NULL if there is no memory. */
char *compile_info_json(struct compile_info *info, const struct witness *witness);

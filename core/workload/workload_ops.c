/* SPDX-License-Identifier: MIT */
#include "core/workload/workload_ops.h"

#include "core/base/json.h"
#include "core/trace/event.h"
#include "core/workload/statistics.h"

#include <stdlib.h>
#include <string.h>

static int wrong(const struct workload_ops *ops, const struct workload_stream *stream, struct error *error,
                 const char *what) {
  uint64_t offset = stream->at ? workload_stream_offset(stream) : ops->workload->header.extents_offset;
  return error_at(error, ops->workload->path, offset, "%s", what);
}

/* START words right after an op are executed with it. */
static void take_prompt_starts(struct workload_stream *stream, struct workload_ops_op *op) {
  while ((stream->at != stream->end || workload_stream_refill(stream)) && word_code(*stream->at) == WORD_START)
    buffer_append_u64(&op->starts, *stream->at++);
}

static int take_op(struct workload_ops *ops, uint32_t thread, struct error *error) {
  struct workload_stream *stream = &ops->streams[thread];
  struct workload_ops_op *op = &ops->op;
  uint64_t word, size_high = 0;
  op->param = 1;
  op->touched = op->region = 0;
  op->has_time = false;
  op->waits.used = op->starts.used = 0;
  op->thread = thread;
  while (workload_stream_next(stream, &word)) {
    switch (word_code(word)) {
    case WORD_SIZE_HIGH:
      size_high = word_payload(word);
      break;
    case WORD_PARAM:
      op->param = word_payload(word);
      break;
    case WORD_TOUCHED:
      op->touched = word_payload(word);
      break;
    case WORD_REGION:
      op->region = word_payload(word);
      break;
    case WORD_WAIT:
      buffer_append_u64(&op->waits, word);
      break;
    case WORD_START:
      buffer_append_u64(&op->starts, word);
      break;
    case WORD_TIME:
      op->time_ns = word_payload(word);
      op->has_time = true;
      break;
    case WORD_MARK:
      break;
    case WORD_END:
      return wrong(ops, stream, error, "the stream ends before the schedule does");
    default:
      op->call = word_code(word);
      if (!trace_call_is_legal(op->call))
        return wrong(ops, stream, error, "not an op");
      op->slot = word_slot(word);
      op->size_bytes = size_high << 24 | word_size_low(word);
      take_prompt_starts(stream, op);
      return op->waits.failed || op->starts.failed ? wrong(ops, stream, error, "out of memory") : 0;
    }
  }
  return wrong(ops, stream, error, "the stream ends without END");
}

static int check_ends(struct workload_ops *ops, struct error *error) {
  uint64_t word;
  for (uint32_t i = 0; i < ops->workload->header.threads; i++)
    if (!workload_stream_next(&ops->streams[i], &word) || word_code(word) != WORD_END)
      return wrong(ops, &ops->streams[i], error, "words are left, or no END, when the schedule ends");
  return 0;
}

int workload_ops_open(struct workload_ops *ops, const struct workload *workload, struct error *error) {
  const struct workload_header *header = &workload->header;
  *ops = (struct workload_ops){.workload = workload, .op.position = UINT64_MAX};
  ops->streams = calloc(header->threads + 1u, sizeof *ops->streams);
  if (!ops->streams)
    return error_set(error, workload->path, "out of memory");
  for (uint32_t i = 0; i < header->threads; i++)
    workload_stream_open(&ops->streams[i], workload, i);
  workload_stream_open(&ops->schedule, workload, header->threads);
  return 0;
}

void workload_ops_close(struct workload_ops *ops) {
  buffer_free(&ops->op.waits);
  buffer_free(&ops->op.starts);
  free(ops->streams);
}

int workload_ops_next(struct workload_ops *ops, struct error *error) {
  uint64_t run;
  while (ops->run_ops == 0) {
    if (!workload_stream_next(&ops->schedule, &run))
      return check_ends(ops, error);
    ops->op.thread = (uint32_t)run;
    ops->run_ops = run >> 32;
    if (ops->op.thread >= ops->workload->header.threads)
      return wrong(ops, &ops->schedule, error, "the schedule names a thread that does not exist");
  }
  if (take_op(ops, ops->op.thread, error) != 0)
    return -1;
  ops->run_ops--;
  ops->op.position++;
  return 1;
}

void time_line_add(struct time_line *line, const struct workload_time_point *now) {
  /* Where the number of ops was unknown, or there are more than were announced, the points get sparser. */
  if (line->point_count == TIME_LINE_POINTS) {
    for (uint32_t i = 0; i < TIME_LINE_POINTS / 2; i++)
      line->points[i] = line->points[2 * i];
    line->point_count = TIME_LINE_POINTS / 2;
    line->interval *= 2;
  }
  line->points[line->point_count++] = *now;
  line->next_point += line->interval;
}

const struct workload_time_point *time_line_finish(struct time_line *line, const struct workload_time_point *end,
                                                   size_t *count) {
  if (line->point_count == 0 || line->points[line->point_count - 1].position < end->position)
    line->points[line->point_count++] = *end;
  uint32_t at = line->point_count;
  while (at > 0 && line->points[at - 1].position > line->peak.position)
    at--;
  if (line->peak.live_bytes && line->points[at - 1].position != line->peak.position) {
    memmove(&line->points[at + 1], &line->points[at], (line->point_count - at) * sizeof line->points[0]);
    line->points[at] = line->peak;
    line->point_count++;
  }
  *count = line->point_count;
  return line->points;
}

json_t *size_histogram_json(const struct size_histogram *histogram) {
  json_t *rows = json_array();
  for (unsigned i = 0; i < SIZE_BUCKETS; i++)
    if (histogram->buckets[i].count)
      json_append_counts(rows, 3,
                         (uint64_t[]){size_bucket_lower(i), histogram->buckets[i].count, histogram->buckets[i].bytes});
  return rows;
}

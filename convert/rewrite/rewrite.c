/* SPDX-License-Identifier: MIT */
#include "convert/rewrite/rewrite.h"

#include "convert/rewrite/trace_out.h"
#include "core/base/files.h"
#include "core/base/vector.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHY_BYTES = 128 };

struct gap {
  uint64_t events_before, dropped;
  char why[WHY_BYTES];
};

struct gaps {
  VECTOR(struct gap) list;
};

static int take_gap(void *context, uint64_t events_before, uint64_t dropped, const char *why) {
  struct gaps *gaps = context;
  struct gap *gap = vector_add(&gaps->list);
  if (!gap)
    return 1;
  *gap = (struct gap){.events_before = events_before, .dropped = dropped};
  strncpy(gap->why, why, WHY_BYTES - 1);
  return 0;
}

struct copier {
  struct trace_out *out;
  const char *path; /* of the source */
  const struct trace_change *change;
  struct trace_stacks stacks;
  uint64_t *events_before; /* by thread: events in the new trace from other sources */
};

static uint32_t new_thread(const struct copier *copier, uint32_t thread) {
  return copier->change->threads ? copier->change->threads[thread] : thread;
}

static uint64_t new_stamp(const struct copier *copier, uint64_t stamp) {
  return copier->change->stamp ? copier->change->stamp(copier->change->context, stamp) : stamp;
}

/* Returns false if an address is beyond the limit. */
static bool change_event(const struct copier *copier, struct trace_event *event) {
  uint64_t limit = copier->change->address_limit;
  if (limit && (event->released >= limit || event->acquired >= limit))
    return false;
  event->stack = trace_stacks_node(&copier->stacks, event->stack);
  if (event->released)
    event->released += copier->change->address_offset;
  if (event->acquired)
    event->acquired += copier->change->address_offset;
  if (copier->change->stamp) {
    bool same = event->acquire_stamp == event->release_stamp;
    event->release_stamp = new_stamp(copier, event->release_stamp);
    event->acquire_stamp = same ? event->release_stamp : new_stamp(copier, event->acquire_stamp);
  }
  return true;
}

/* Returns whether the thread continues from a source that the new trace contains, so that nothing is missing there. */
static bool is_joined(const struct copier *copier, uint32_t thread, const struct gap *gap) {
  uint32_t number, file;
  return copier->events_before[thread] && gap->events_before == 0 && gap->dropped == 0 &&
         sscanf(gap->why, TRACE_CONTINUES, &number, &file) == 2;
}

static int copy_events(const struct copier *copier, struct trace_cursor *cursor, uint32_t thread,
                       const struct gaps *gaps, struct error *error) {
  struct trace_writer *writer = trace_out_writer(copier->out);
  struct trace_event event;
  uint64_t events = 0;
  size_t gap = 0;
  int got;
  uint32_t number = new_thread(copier, thread);
  for (;; events++) {
    for (; gap < gaps->list.count && gaps->list.at[gap].events_before == events; gap++)
      if (!is_joined(copier, thread, &gaps->list.at[gap]) &&
          trace_writer_gap(writer, trace_out_add_thread(copier->out, number), gaps->list.at[gap].dropped,
                           gaps->list.at[gap].why) != 0)
        return -1;
    if ((got = trace_cursor_next(cursor, &event)) <= 0)
      return got;
    if (!change_event(copier, &event))
      return error_set(error, copier->path, "event %" PRIu64 " of thread %" PRIu32 " has an address beyond 48 bits",
                       events, thread);
    if (trace_out_event(copier->out, number, &event) != 0)
      return -1;
  }
}

static int copy_thread(const struct copier *copier, struct trace_reader *reader, uint32_t thread, struct error *error) {
  struct trace_cursor *cursor = NULL;
  struct gaps gaps = {0};
  int result = trace_reader_gaps(reader, thread, take_gap, &gaps, error);
  if (result > 0)
    result = error_set(error, trace_reader_path(reader), "out of memory");
  if (result == 0)
    result = trace_cursor_open(&cursor, reader, thread, error);
  if (result == 0)
    result = copy_events(copier, cursor, thread, &gaps, error);
  trace_cursor_close(cursor);
  free(gaps.list.at);
  return result == 0 ? trace_out_end_thread(copier->out, new_thread(copier, thread)) : -1;
}

static int copy_touched(void *context, uint64_t address, uint32_t os_pages) {
  const struct copier *copier = context;
  return trace_writer_touched(trace_out_writer(copier->out), address + copier->change->address_offset, os_pages);
}

static int copy_mark(void *context, const struct trace_mark *mark) {
  const struct copier *copier = context;
  struct trace_mark copy = *mark;
  copy.thread = trace_out_thread(copier->out, new_thread(copier, mark->thread));
  copy.events += copier->events_before[mark->thread];
  copy.stamp = new_stamp(copier, mark->stamp);
  if (copy.thread == UINT32_MAX) /* a thread that only made a mark has no number in the trace */
    copy.thread = mark->thread;
  return trace_writer_mark(trace_out_writer(copier->out), &copy);
}

int trace_copy_into(struct trace_out *out, struct trace_reader *reader, const struct trace_change *change,
                    struct error *error) {
  struct copier copier = {.out = out, .path = trace_reader_path(reader), .change = change};
  uint32_t threads = trace_reader_summary(reader)->threads;
  copier.events_before = calloc(threads + 1, sizeof *copier.events_before);
  if (!copier.events_before)
    return error_set(error, copier.path, "out of memory");
  for (uint32_t thread = 0; thread < threads; thread++)
    copier.events_before[thread] = trace_out_events(out, new_thread(&copier, thread));
  int result = trace_copy_stacks(&copier.stacks, reader, out, change->address_offset, error);
  for (uint32_t thread = 0; result == 0 && thread < threads; thread++) {
    result = copy_thread(&copier, reader, thread, error);
    trace_out_progress(out);
  }
  if (result == 0)
    result = trace_reader_touched(reader, copy_touched, &copier, error);
  if (result == 0)
    result = trace_reader_marks(reader, copy_mark, &copier, error);
  if (result == 0)
    result = trace_copy_thread_names(reader, out, change->threads, error);
  trace_stacks_free(&copier.stacks);
  free(copier.events_before);
  return result == 0 ? 0 : -1;
}

static int copy_sample(void *context, const struct trace_sample *sample) {
  return trace_writer_sample(context, sample);
}

static int trace_copy(struct trace_reader *reader, const char *path, const struct trace_options *options,
                      struct error *error) {
  const struct trace_summary *summary = trace_reader_summary(reader);
  const struct trace_change change = {0};
  json_t *info = trace_out_source_info(summary);
  if (summary->truncated)
    json_object_set_new(info, "truncated_source", json_true());
  struct trace_out *out = trace_out_open(path, info, options, summary->threads, error);
  json_decref(info);
  if (!out)
    return -1;
  int result = trace_copy_into(out, reader, &change, error);
  if (result == 0)
    result = trace_reader_samples(reader, copy_sample, trace_out_writer(out), error);
  if (result == 0)
    result = trace_copy_accesses(reader, out, error);
  return trace_out_close(out, summary, result != 0, error);
}

enum step { MERGE, SLICE, ANONYMISE, COPY, STEPS };

struct step_run {
  enum step step;
  struct trace_reader **readers;
  uint32_t count;
  const char *path;
  struct trace_options options;
};

static int run_step(const struct step_run *run, const struct slice_spec *spec, struct error *error) {
  switch (run->step) {
  case MERGE:
    return trace_merge(run->readers, run->count, run->path, &run->options, error);
  case SLICE:
    return trace_slice(run->readers[0], run->path, spec, &run->options, error);
  case ANONYMISE:
    return trace_anonymise(run->readers[0], run->path, &run->options, error);
  default:
    return trace_copy(run->readers[0], run->path, &run->options, error);
  }
}

int rewrite_trace(const struct rewrite *rewrite, struct trace_reader **readers, uint32_t count, const char *path,
                  struct error *error) {
  bool wanted[STEPS] = {rewrite->merge, rewrite->slice.texts != NULL, rewrite->anonymise, false};
  enum step last = COPY;
  for (enum step step = MERGE; step < COPY; step++)
    if (wanted[step])
      last = step;
  wanted[last] = true;
  struct trace_reader *reader = NULL; /* of the previous step */
  int result = 0;
  for (enum step step = MERGE; step <= last && result == 0; step++) {
    struct temporary_file temporary = {.fd = -1};
    if (!wanted[step])
      continue;
    if (step != last)
      result = temporary_file_open(&temporary, error);
    struct step_run run = {.step = step,
                           .readers = reader ? &reader : readers,
                           .count = reader ? 1 : count,
                           .path = step == last ? path : temporary.path,
                           .options = {.archive = step == last && rewrite->archive, .history = &rewrite->history}};
    if (result == 0)
      result = run_step(&run, &rewrite->slice, error);
    trace_reader_close(reader);
    reader = NULL;
    if (step != last && result == 0)
      result = trace_reader_open(&reader, temporary.path, error);
    temporary_file_close(&temporary);
  }
  trace_reader_close(reader);
  return result;
}

/* SPDX-License-Identifier: MIT */
#include "convert/copy/trace_copy.h"

#include "core/base/vector.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct modules {
  VECTOR(struct trace_module) list;
};

struct stack_copier {
  struct trace_stacks *stacks;
  struct trace_writer *writer;
  const struct modules *modules;
  size_t modules_written;
  bool nodes_written;
  uint64_t address_offset;
};

static int take_module(void *context, const struct trace_module *module) {
  struct modules *modules = context;
  struct trace_module *copy = vector_add(&modules->list);
  return copy && trace_module_copy(copy, module) ? 0 : 1;
}

static void modules_free(struct modules *modules) {
  for (size_t i = 0; i < modules->list.count; i++)
    trace_module_free_texts(&modules->list.at[i]);
  free(modules->list.at);
}

/* Writes the modules up to the first `until` of them. A new module may replace others: addresses then belong to other
   code. */
static int write_modules(struct stack_copier *copier, size_t until) {
  if (copier->nodes_written && copier->modules_written < until)
    trace_writer_forget_stacks(copier->writer);
  while (copier->modules_written < until && copier->modules_written < copier->modules->list.count) {
    struct trace_module module = copier->modules->list.at[copier->modules_written++];
    module.start += copier->address_offset;
    module.end += copier->address_offset;
    module.bias += copier->address_offset;
    if (trace_writer_module(copier->writer, &module) != 0)
      return -1;
  }
  return 0;
}

static int take_node(void *context, const struct trace_stack_node *node) {
  struct stack_copier *copier = context;
  struct trace_stacks *stacks = copier->stacks;
  if (write_modules(copier, node->modules) != 0)
    return 1;
  copier->nodes_written = true;
  if (node->node < stacks->count)
    stacks->nodes[node->node] = trace_writer_stack_node(copier->writer, trace_stacks_node(stacks, node->parent),
                                                        node->instruction + copier->address_offset);
  return 0;
}

int trace_copy_stacks(struct trace_stacks *stacks, struct trace_reader *reader, struct trace_out *out,
                      uint64_t address_offset, struct error *error) {
  struct modules modules = {0};
  struct stack_copier copier = {stacks, trace_out_writer(out), &modules, 0, false, address_offset};
  stacks->count = trace_reader_summary(reader)->stack_nodes + 1;
  stacks->nodes = calloc(stacks->count, sizeof *stacks->nodes);
  int result = stacks->nodes ? trace_reader_modules(reader, take_module, &modules, error) : 1;
  if (result == 0)
    result = trace_reader_stacks(reader, take_node, &copier, error);
  if (result == 0)
    result = write_modules(&copier, modules.list.count);
  modules_free(&modules);
  if (result > 0)
    error_set(error, trace_reader_path(reader), "its stacks can't be copied: out of memory or disk");
  return result == 0 ? 0 : -1;
}

void trace_stacks_free(struct trace_stacks *stacks) {
  free(stacks->nodes);
}

struct name_copier {
  struct trace_out *out;
  const uint32_t *threads;
};

static int take_name(void *context, uint32_t thread, const char *name) {
  const struct name_copier *copier = context;
  uint32_t number = trace_out_thread(copier->out, copier->threads ? copier->threads[thread] : thread);
  return number == UINT32_MAX ? 0 : trace_writer_thread_name(trace_out_writer(copier->out), number, name);
}

int trace_copy_thread_names(struct trace_reader *reader, struct trace_out *out, const uint32_t *threads,
                            struct error *error) {
  struct name_copier copier = {out, threads};
  return trace_reader_thread_names(reader, take_name, &copier, error);
}

void trace_copy_access_totals(const struct trace_reader *reader, struct trace_out *out) {
  const struct trace_access_totals *from = &trace_reader_summary(reader)->accesses;
  struct trace_access_totals *to = &trace_writer_totals(trace_out_writer(out))->accesses;
  memcpy(to->counted, from->counted, sizeof to->counted);
  memcpy(to->known, from->known, sizeof to->known);
  to->lost += from->lost;
  to->in_bursts = from->in_bursts;
}

/* The new trace's number of a thread; threads without an event come after the others. */
static uint32_t thread_in(struct trace_out *out, uint32_t thread, uint32_t source_threads) {
  return thread < source_threads ? trace_out_add_thread(out, thread) : thread;
}

int trace_copy_accesses(struct trace_reader *reader, struct trace_out *out, struct error *error) {
  uint32_t source_threads = trace_reader_summary(reader)->threads;
  struct trace_writer *writer = trace_out_writer(out);
  struct trace_access_cursor *cursor;
  struct access_item item;
  int got, result = 0;
  if (!trace_reader_summary(reader)->accesses.recorded)
    return 0;
  if (trace_writer_accesses_begin(writer) != 0 || trace_access_cursor_open(&cursor, reader, error) != 0)
    return -1;
  while (result == 0 && (got = trace_access_cursor_next(cursor, &item)) != 0) {
    if (got > 0 && item.kind == ACCESS_EVENT)
      item.thread = thread_in(out, item.thread, source_threads);
    result = got < 0 ? -1 : trace_writer_access(writer, &item);
  }
  trace_access_cursor_close(cursor);
  if (result != 0)
    return -1;
  trace_copy_access_totals(reader, out);
  return 0;
}

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

static int copy_touched(void *context, uint64_t address, struct touched touched) {
  const struct copier *copier = context;
  return trace_writer_touched(trace_out_writer(copier->out), address + copier->change->address_offset, touched);
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
    copier.events_before[thread] = trace_out_thread_events(out, new_thread(&copier, thread));
  int result = trace_copy_stacks(&copier.stacks, reader, out, change->address_offset, error);
  for (uint32_t thread = 0; result == 0 && thread < threads; thread++) {
    result = copy_thread(&copier, reader, thread, error);
    trace_out_show_progress(out);
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

int trace_copy(struct trace_reader *reader, const char *path, const struct trace_options *options,
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

/* SPDX-License-Identifier: MIT */
#include "convert/rewrite/trace_out.h"

#include "core/base/vector.h"
#include "core/trace/layout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define THREAD_NONE UINT32_MAX

/* Tried on recordings of cc1, git, perl, python3, redis and sqlite3: archives at level 19 are a quarter smaller than at
   level 3. Higher levels and long-distance matching gain under 1 %, since a column of a block is smaller than their
   windows. */
enum { ARCHIVE_ZSTD_LEVEL = 19, ARCHIVE_OPEN_EVENTS = 1 << 22, ARCHIVE_MIN_BLOCK = 1 << 16 };

struct thread_out {
  uint32_t number;
  uint64_t last_stamp, events;
};

enum { PROGRESS_EVENTS = 1 << 16 };

struct trace_out {
  struct trace_writer *writer;
  const struct history_options *history;
  uint64_t shown; /* events when progress was last shown */
  uint32_t source_threads, threads;
  bool drops_accesses;
  struct thread_out by_source[];
};

/* Larger blocks name more objects by number; but a reader in order has a block of each thread open. */
static uint32_t block_events(uint32_t threads) {
  uint32_t share = ARCHIVE_OPEN_EVENTS / (threads ? threads : 1);
  return share > TRACE_MAX_ROWS ? TRACE_MAX_ROWS : share < ARCHIVE_MIN_BLOCK ? ARCHIVE_MIN_BLOCK : share;
}

struct trace_out *trace_out_open(const char *path, const json_t *info, const struct trace_options *options,
                                 uint32_t source_threads, struct error *error) {
  struct trace_writer_options archive = {
      .zstd_level = ARCHIVE_ZSTD_LEVEL, .block_events = block_events(source_threads), .archive = true};
  char *text = json_dumps(info, options->info_flags);
  struct trace_out *out = calloc(1, sizeof *out + source_threads * sizeof *out->by_source);
  int result = -1;
  if (!text || !out)
    error_set(error, path, "out of memory");
  else
    result = trace_writer_open(&out->writer, path, text, options->archive ? &archive : NULL, error);
  free(text);
  if (result != 0) {
    free(out);
    return NULL;
  }
  out->history = options->history;
  out->source_threads = source_threads;
  for (uint32_t i = 0; i < source_threads; i++)
    out->by_source[i].number = THREAD_NONE;
  return out;
}

/* Shows the user how many events the new trace has, now and then. */
static void show_progress(struct trace_out *out) {
  uint64_t events = trace_writer_totals(out->writer)->events;
  if (out->history && out->history->progress && events - out->shown >= PROGRESS_EVENTS)
    out->history->progress(out->history->progress_context, out->shown = events);
}

/* 0, "inherits", if the stamp is equal to the thread's last one. */
static uint64_t stamp_to_write(struct thread_out *thread, uint64_t stamp) {
  if (stamp <= thread->last_stamp)
    return 0;
  thread->last_stamp = stamp;
  return stamp;
}

uint32_t trace_out_add_thread(struct trace_out *out, uint32_t thread) {
  if (out->by_source[thread].number == THREAD_NONE)
    out->by_source[thread].number = out->threads++;
  return out->by_source[thread].number;
}

int trace_out_event(struct trace_out *out, uint32_t number, const struct trace_event *event) {
  struct thread_out *thread = &out->by_source[number];
  struct trace_event copy = *event;
  trace_out_add_thread(out, number);
  thread->events++;
  if (trace_event_steps(event) == 2) {
    copy.release_stamp = stamp_to_write(thread, event->release_stamp);
    copy.acquire_stamp = stamp_to_write(thread, event->acquire_stamp);
  } else {
    copy.release_stamp = copy.acquire_stamp = stamp_to_write(thread, trace_event_first_stamp(event));
  }
  return trace_writer_event(out->writer, thread->number, &copy);
}

uint32_t trace_out_thread(const struct trace_out *out, uint32_t thread) {
  return thread < out->source_threads ? out->by_source[thread].number : THREAD_NONE;
}

struct trace_writer *trace_out_writer(struct trace_out *out) {
  return out->writer;
}

int trace_out_end_thread(struct trace_out *out, uint32_t thread) {
  uint32_t number = trace_out_thread(out, thread);
  return number == THREAD_NONE ? 0 : trace_writer_flush_thread(out->writer, number);
}

void trace_out_drop_accesses(struct trace_out *out) {
  out->drops_accesses = true;
}

/* The parts of the source's footer that the new footer keeps; changes footer. NULL: no memory. */
static char *footer_to_keep(const struct trace_out *out, json_t *footer) {
  static const char left_out[] = "data accesses are left out: they belong to the whole of one trace";
  const char *note = json_string_value(json_object_get(footer, "note"));
  json_object_del(footer, "accesses");
  if (out->drops_accesses)
    json_object_set_new(footer, "note", note ? json_sprintf("%s; %s", note, left_out) : json_string(left_out));
  return json_dumps(footer, JSON_COMPACT);
}

int trace_out_close(struct trace_out *out, const struct trace_summary *source, bool failed, struct error *error) {
  json_t *footer = json_loads(source->footer_json, 0, NULL);
  const char *end = json_string_value(json_object_get(footer, "end"));
  struct trace_totals *totals = trace_writer_totals(out->writer);
  totals->in_flight = (uint64_t)json_integer_value(json_object_get(footer, "in_flight"));
  totals->nested = (uint64_t)json_integer_value(json_object_get(footer, "nested"));
  totals->clamped_stamps += (uint64_t)json_integer_value(json_object_get(footer, "clamped_stamps"));
  char *more = footer_to_keep(out, footer);
  totals->more = more;
  double hz = json_number_value(json_object_get(footer, "clock_hz"));
  /* A truncated source has no footer: as far as is known, its program was still running when the file ended. */
  int result = trace_writer_close(out->writer, end ? end : "stopped", hz, error);
  json_decref(footer);
  free(more);
  free(out);
  return failed ? -1 : result;
}

json_t *trace_out_source_info(const struct trace_summary *source) {
  json_t *info = json_loads(source->info_json, 0, NULL);
  return info ? info : json_object();
}

/* Each thread gets its addresses from its own regions of 2^REGION_BITS bytes, so that objects of two threads never
   overlap. 2^24 of them fill the address space: one per thread that a trace can have. */
enum { REGION_BITS = 40 };

bool op_sink_init(struct op_sink *sink, struct trace_out *out, uint32_t threads) {
  *sink =
      (struct op_sink){.out = out, .threads = calloc(threads + 1u, sizeof *sink->threads), .last_thread = THREAD_NONE};
  return sink->threads != NULL;
}

void op_sink_free(struct op_sink *sink) {
  free(sink->threads);
}

/* The address that the reader's predictor expects (FORMAT.md section 4: the previous miss, plus 16 x its class), so
   that addresses cost nothing. */
static uint64_t next_address(struct op_sink *sink, const struct history_op *op) {
  struct op_sink_thread *thread = &sink->threads[op->thread];
  uint64_t region_bytes = 1ull << REGION_BITS, bytes = 16 * predictor_class(op->request_bytes);
  if (op->request_bytes >= region_bytes)
    bytes = region_bytes; /* nothing can touch all these bytes: they may overlap, but not the addresses */
  if (thread->region_end - thread->next_address < bytes) {
    /* After 2^24 regions it starts again: those objects ended long ago. */
    thread->next_address = (sink->regions++ % ((1 << 24) - 1) + 1) << REGION_BITS;
    thread->region_end = thread->next_address + region_bytes;
  }
  uint64_t address = thread->next_address;
  thread->next_address += bytes;
  return address;
}

int op_sink_event(struct op_sink *sink, struct trace_event *event, uint32_t thread, uint64_t stamp) {
  if (thread != sink->last_thread || stamp > sink->stamp) {
    sink->stamp = stamp > sink->stamp ? stamp : sink->stamp + 1;
    sink->last_thread = thread;
  }
  event->release_stamp = event->acquire_stamp = sink->stamp;
  return trace_out_event(sink->out, thread, event);
}

int op_sink_put(struct op_sink *sink, const struct history_op *op, uint32_t thread, uint64_t stamp, uint64_t *address) {
  struct trace_event event = {.call = op->call,
                              .size_bytes = op->size_bytes,
                              .param = op->param,
                              .touched_os_pages = op->touched_os_pages,
                              .touched_parts = op->touched_parts};
  if (op->kind != HISTORY_NOTHING && op->kind != HISTORY_ACQUIRE)
    event.released = *address;
  if (op->kind == HISTORY_ACQUIRE || op->kind == HISTORY_MOVE)
    event.acquired = *address = next_address(sink, op);
  return op_sink_event(sink, &event, thread, stamp);
}

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
  struct trace_access_totals *to = &trace_writer_totals(out->writer)->accesses;
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
  for (uint32_t thread = 0; thread < threads; thread++) {
    uint32_t source = new_thread(&copier, thread);
    copier.events_before[thread] = source < out->source_threads ? out->by_source[source].events : 0;
  }
  int result = trace_copy_stacks(&copier.stacks, reader, out, change->address_offset, error);
  for (uint32_t thread = 0; result == 0 && thread < threads; thread++) {
    result = copy_thread(&copier, reader, thread, error);
    show_progress(out);
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

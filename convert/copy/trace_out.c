/* SPDX-License-Identifier: MIT */
#include "convert/copy/trace_out.h"

#include "core/trace/layout.h"

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

void trace_out_show_progress(struct trace_out *out) {
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

uint64_t trace_out_thread_events(const struct trace_out *out, uint32_t thread) {
  return thread < out->source_threads ? out->by_source[thread].events : 0;
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

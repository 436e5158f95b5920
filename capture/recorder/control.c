/* SPDX-License-Identifier: MIT */
#include "capture/recorder/control.h"

#include "capture/recorder/ends.h"
#include "capture/recorder/processes/ring_reading.h"
#include "capture/recorder/recording.h"
#include "core/base/json.h"
#include "core/base/os.h"
#include "core/base/vector.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A reply must fit into one message, which is at most about 200 KiB: the length of paths matters. It has the sites that
   hold most, and those that have acquired most lately. */
enum {
  PROCESSES_BYTES = 150 << 10,
  PROCESS_BYTES = 700,
  THREADS_LISTED = 400,
  SITES_LISTED = 16,
  FRAMES_LISTED = 24,
  MODULES_LISTED = 400
};

static void set_estimate(json_t *object, const struct live_estimate *estimate) {
  json_object_set_new(object, "live_bytes", json_real(estimate->bytes));
  json_object_set_new(object, "live_objects", json_real(estimate->objects));
  json_object_set_new(object, "live_bytes_variance", json_real(estimate->bytes_variance));
  json_object_set_new(object, "live_objects_variance", json_real(estimate->objects_variance));
}

static json_t *calls_json(const struct recorded_process *process) {
  const struct trace_totals *totals = trace_writer_totals(process->writer);
  json_t *calls = json_object();
  for (int id = 0; id < CALL_LIMIT; id++)
    if (process->before.calls[id] + totals->calls[id])
      json_set_count(calls, call_table[id].name, process->before.calls[id] + totals->calls[id]);
  return calls;
}

static json_t *process_json(const struct recorded_process *process) {
  json_t *object =
      json_pack("{s:i,s:o,s:o,s:b}", "pid", process->pid, "name", json_text(process->name, sizeof process->name),
                "trace", json_text(process->path, strlen(process->path)), "forked", process->forked);
  const struct trace_totals *totals = trace_writer_totals(process->writer);
  struct process_missing missing = recorded_process_missing(process);
  uint64_t request_bytes = process->before.request_bytes;
  for (uint32_t thread = 0; thread < process->threads; thread++)
    request_bytes += trace_writer_thread_counts(process->writer, thread).request_bytes;
  json_object_set_new(object, "calls", calls_json(process));
  json_set_count(object, "events", process->before.events + totals->events);
  json_set_count(object, "request_bytes", request_bytes);
  json_set_count(object, "threads_recorded", process->threads);
  json_set_count(object, "dropped", missing.dropped);
  json_set_count(object, "skipped", missing.skipped);
  json_set_count(object, "lost", process->before.lost + totals->lost);
  json_set_count(object, "file_bytes", process->before.file_bytes + totals->file_bytes);
  struct live_estimate live = live_sample_estimate(&process->live);
  set_estimate(object, &live);
  json_object_set_new(object, "live_share", json_real((double)process->live.sampled / LIVE_BUCKETS));
  json_object_set_new(object, "given_up", process->given_up ? json_string(process->given_up) : json_null());
  json_object_set_new(object, "paused", json_boolean(process_banks_paused(process) != 0));
  json_object_set_new(object, "stacks", json_boolean(process->stacks.area != NULL));
  return object;
}

/* Threads that have made a call and have not ended, as far as the rings show. */
static json_t *threads_json(const struct recorded_process *process) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < process->readers.count && json_array_size(list) < THREADS_LISTED; i++) {
    const struct ring_reader *reader = &process->readers.at[i];
    if (reader->thread < 0)
      continue;
    struct trace_thread_counts counts = trace_writer_thread_counts(process->writer, (uint32_t)reader->thread);
    json_array_append_new(list,
                          json_pack("{s:I,s:I,s:I,s:I}", "thread", (json_int_t)reader->thread, "tid",
                                    (json_int_t)atomic_load(&reader->ring->owner), "events", (json_int_t)counts.events,
                                    "request_bytes", (json_int_t)counts.request_bytes));
  }
  return list;
}

struct row {
  uint32_t node;
  bool listed;
  struct live_estimate live;
  struct site site;
  double recent;
};

struct rows {
  VECTOR(struct row) list;
};

static int by_node(const void *a, const void *b) {
  return COMPARE(((const struct row *)a)->node, ((const struct row *)b)->node);
}

static int by_live(const void *a, const void *b) {
  return COMPARE(((const struct row *)b)->live.bytes, ((const struct row *)a)->live.bytes);
}

static int by_recent(const void *a, const void *b) {
  return COMPARE(((const struct row *)b)->recent, ((const struct row *)a)->recent);
}

static void add_row(struct rows *rows, const struct row *row) {
  struct row *added = vector_add(&rows->list);
  if (added)
    *added = *row;
}

/* Merges the rows into one per node. */
static void add_up(struct rows *rows) {
  size_t kept = 0;
  vector_sort(&rows->list, by_node);
  for (size_t i = 0; i < rows->list.count; i++) {
    const struct row *row = &rows->list.at[i];
    if (kept == 0 || rows->list.at[kept - 1].node != row->node) {
      rows->list.at[kept++] = *row;
      continue;
    }
    struct row *sum = &rows->list.at[kept - 1];
    sum->live.bytes += row->live.bytes;
    sum->live.objects += row->live.objects;
    sum->live.bytes_variance += row->live.bytes_variance;
    sum->live.objects_variance += row->live.objects_variance;
    if (row->site.node) {
      sum->site = row->site;
      sum->recent = row->recent;
    }
  }
  rows->list.count = kept;
}

static void list_first(struct rows *rows, int (*order)(const void *, const void *)) {
  vector_sort(&rows->list, order);
  for (size_t i = 0; i < rows->list.count && i < SITES_LISTED; i++)
    rows->list.at[i].listed = true;
}

static struct rows rows_of(const struct recorded_process *process) {
  struct rows rows = {{0}};
  uint64_t now_ns = os_monotonic_ns();
  for (uint32_t i = 0; i < process->live.room; i++) {
    const struct live_object *object = &process->live.objects[i];
    if (object->live && object->node)
      add_row(&rows, &(struct row){.node = object->node, .live = live_object_estimate(object)});
  }
  for (size_t i = 0; i < process->sites.sites.count; i++) {
    const struct site *site = &process->sites.sites.at[i];
    add_row(&rows, &(struct row){.node = site->node, .site = *site, .recent = site_recent(site, now_ns)});
  }
  add_up(&rows);
  list_first(&rows, by_live);
  list_first(&rows, by_recent);
  return rows;
}

static json_t *row_json(const struct recorded_process *process, const struct row *row) {
  uint64_t frames[FRAMES_LISTED];
  uint32_t count = stack_nodes_frames(&process->stacks, row->node, frames, FRAMES_LISTED);
  json_t *list = json_array();
  for (uint32_t i = 0; i < count; i++)
    json_array_append_new(list, json_integer((json_int_t)frames[i]));
  json_t *object = json_pack("{s:I,s:o,s:f,s:f,s:f,s:f}", "node", (json_int_t)row->node, "frames", list, "calls",
                             row->site.calls, "bytes", row->site.bytes, "calls_variance", row->site.calls_variance,
                             "bytes_variance", row->site.bytes_variance);
  if (object)
    set_estimate(object, &row->live);
  return object;
}

static json_t *sites_json(const struct recorded_process *process) {
  json_t *list = json_array();
  struct rows rows = rows_of(process);
  for (size_t i = 0; i < rows.list.count; i++)
    if (rows.list.at[i].listed)
      json_array_append_new(list, row_json(process, &rows.list.at[i]));
  free(rows.list.at);
  return list;
}

/* Counts of all processes (only: NULL), as many as fit into a reply, or of one. Threads and sites are given only where
   one process is requested, or there is only one. The rings are drained first, so a call that had returned before the
   request is counted. NULL: no memory. */
static json_t *counts_of(struct collector *collector, struct recorded_process *only) {
  json_t *list = json_array();
  bool alone = only || collector->processes.count == 1;
  size_t bytes = 0;
  for (uint32_t i = 0; i < collector->processes.count && bytes < PROCESSES_BYTES; i++) {
    struct recorded_process *process = collector->processes.at[i];
    if (only && only != process)
      continue;
    bytes += PROCESS_BYTES + strlen(process->path);
    ring_reading_drain_all(process, NULL, NULL);
    json_t *object = process_json(process);
    if (object && alone)
      json_object_set_new(object, "threads", threads_json(process));
    if (object && alone)
      json_object_set_new(object, "sites", sites_json(process));
    json_array_append_new(list, object);
  }
  json_t *reply = json_pack("{s:b,s:i,s:o}", "ok", 1, "recorder", (int)getpid(), "processes", list);
  if (!reply)
    return NULL;
  json_set_count(reply, "time_ns", os_monotonic_ns());
  json_set_count(reply, "recorded", collector->outcome.recorded);
  json_set_count(reply, "running", collector->processes.count);
  json_object_set_new(reply, "ended", json_boolean(collector->ended));
  return reply;
}

/* The modules mapped in the process, as far as the trace has them. NULL: no memory. */
static json_t *counts_modules(const struct recorded_process *process) {
  json_t *list = json_array();
  const struct modules *modules = &process->stacks.modules;
  for (size_t i = 0; i < modules->count && json_array_size(list) < MODULES_LISTED; i++) {
    const struct trace_module *module = &modules->at[i].record;
    if (modules->at[i].gone)
      continue;
    json_t *object = json_pack("{s:s,s:s*,s:s*,s:I,s:I,s:I}", "name", module->name, "path", module->path, "build_id",
                               module->build_id, "start", (json_int_t)module->start, "end", (json_int_t)module->end,
                               "bias", (json_int_t)module->bias);
    if (object) /* else its name is not UTF-8 */
      json_array_append_new(list, object);
  }
  return json_pack("{s:b,s:i,s:o}", "ok", 1, "recorder", (int)getpid(), "modules", list);
}

static const char *state_name(uint32_t paused) {
  return paused & PAUSED_FROM_START             ? "not started"
         : paused & ~(uint32_t)PAUSED_BY_BUDGET ? "stopped"
         : paused                               ? "between bursts"
                                                : "recording";
}

/* Bits that the operator sets and clears; a start clears both. */
enum { BY_OPERATOR = PAUSED_BY_CONTROL | PAUSED_FROM_START };

static void set_running(struct recorded_process *process, bool run) {
  if (run)
    process_banks_pause(process, BY_OPERATOR, false);
  else if (!(process_banks_paused(process) & PAUSED_FROM_START))
    process_banks_pause(process, PAUSED_BY_CONTROL, true);
}

static void set_all_running(struct collector *collector, bool run) {
  collector->paused = run ? 0 : collector->paused ? collector->paused : PAUSED_BY_CONTROL;
  for (uint32_t i = 0; i < collector->processes.count; i++)
    set_running(collector->processes.at[i], run);
}

static void begin_duration(struct collector *collector) {
  if (collector->settings->duration_ns && !collector->ends_ns)
    collector->ends_ns = os_monotonic_ns() + collector->settings->duration_ns;
}

void control_begin(struct collector *collector) {
  collector->paused = collector->settings->start_paused ? PAUSED_FROM_START : 0;
  const struct collector_settings *settings = collector->settings;
  collector->bursts = settings->in_bursts && !settings->burst.from[0]; /* the first one begins with the program */
  if (!settings->restorer_pid && !settings->simulated)
    control_first_process(collector);
}

void control_first_process(struct collector *collector) {
  if (!collector->paused)
    begin_duration(collector);
}

static void change(struct collector *collector, struct recorded_process *process, bool run) {
  if (process)
    set_running(process, run);
  else
    set_all_running(collector, run);
  collector_advance_ticks(collector);
  if (run)
    begin_duration(collector);
}

void control_toggle(struct collector *collector) {
  change(collector, NULL, collector->paused != 0);
}

/* One more than before; two where the operator repeats a request, as a mark may have occurred meanwhile. */
static uint32_t next_bursts(uint32_t bursts, bool begins) {
  return bursts + (bursts % 2 == begins ? 2 : 1);
}

static void set_burst(struct collector *collector, struct recorded_process *only, bool begins) {
  if (!only)
    collector->bursts = next_bursts(collector->bursts, begins);
  for (uint32_t i = 0; i < collector->processes.count; i++) {
    struct recorded_process *process = collector->processes.at[i];
    if (!only || only == process)
      process_banks_set_bursts(process, next_bursts(process->bursts, begins));
  }
  collector_advance_ticks(collector);
}

void control_burst(struct collector *collector, enum burst_request request) {
  set_burst(collector, NULL, request == BURST_BEGINS || (request == BURST_CHANGES && collector->bursts % 2 == 0));
}

static void flush(struct collector *collector, struct recorded_process *only) {
  for (uint32_t i = 0; i < collector->processes.count; i++)
    if (!only || only == collector->processes.at[i]) {
      ring_reading_drain_all(collector->processes.at[i], NULL, NULL);
      recorded_process_flush(collector->processes.at[i]);
    }
}

static json_t *describe_process(const struct recorded_process *process) {
  json_t *object = json_pack("{s:i,s:s,s:s}", "pid", process->pid, "trace", process->path, "state",
                             process->given_up ? "given up" : state_name(process_banks_paused(process)));
  if (!object)
    return NULL;
  const struct trace_totals *totals = trace_writer_totals(process->writer);
  json_set_count(object, "events", totals->events);
  json_object_set_new(object, "threads", json_integer(totals->threads));
  json_set_count(object, "dropped", (totals->dropped - process->skipped));
  json_set_count(object, "file_bytes", totals->file_bytes);
  return object;
}

/* A reply must fit into one message, so only the first processes are listed. */
enum { PROCESSES_LISTED = 400 };

static json_t *status(const struct collector *collector, const struct recorded_process *only) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < collector->processes.count && json_array_size(list) < PROCESSES_LISTED; i++)
    if (!only || only == collector->processes.at[i])
      json_array_append_new(list, describe_process(collector->processes.at[i]));
  json_t *reply = json_pack("{s:b,s:i,s:s,s:I,s:o}", "ok", 1, "recorder", (int)getpid(), "state",
                            collector->ended ? "ended" : state_name(collector->paused), "recorded",
                            (json_int_t)collector->outcome.recorded, "processes", list);
  if (reply && collector->settings->in_bursts) /* as the operator requested; marks are the processes' own */
    json_object_set_new(reply, "burst_asked_for", json_boolean(collector->bursts % 2));
  return reply;
}

static json_t *carry_out(struct collector *collector, const char *verb, json_int_t pid) {
  struct recorded_process *process = collector_find(collector, pid);
  if (!process && pid != getpid())
    return json_pack("{s:b,s:s}", "ok", 0, "error", "not recorded here");
  if (strcmp(verb, "counts") == 0)
    return counts_of(collector, process);
  if (strcmp(verb, "modules") == 0 && process)
    return counts_modules(process);
  if (collector->ended && strcmp(verb, "status") != 0)
    return json_pack("{s:b,s:s}", "ok", 0, "error", "the recording has ended");
  if (strcmp(verb, "start") == 0 || strcmp(verb, "stop") == 0)
    change(collector, process, strcmp(verb, "start") == 0);
  else if (strcmp(verb, "begin-burst") == 0 || strcmp(verb, "end-burst") == 0) {
    if (!collector->settings->in_bursts)
      return json_pack("{s:b,s:s}", "ok", 0, "error", "the recording has no bursts: record --accesses --burst");
    set_burst(collector, process, strcmp(verb, "begin-burst") == 0);
  } else if (strcmp(verb, "flush") == 0)
    flush(collector, process);
  else if (strcmp(verb, "status") != 0)
    return json_pack("{s:b,s:s}", "ok", 0, "error", "unknown verb");
  return status(collector, process);
}

char *control_request(struct collector *collector, const char *text) {
  json_t *request = json_loads(text, 0, NULL);
  const char *verb = json_string_value(json_object_get(request, "verb"));
  json_t *pid = json_object_get(request, "pid");
  json_t *reply = verb && json_is_integer(pid) ? carry_out(collector, verb, json_integer_value(pid))
                                               : json_pack("{s:b,s:s}", "ok", 0, "error", "not a request");
  char *answer = reply ? json_dumps(reply, JSON_COMPACT) : NULL;
  json_decref(reply);
  json_decref(request);
  return answer;
}

static uint64_t bytes_now(const struct collector *collector) {
  uint64_t bytes = collector->closed_bytes;
  for (uint32_t i = 0; i < collector->processes.count; i++)
    bytes += recorded_process_file_bytes(collector->processes.at[i]);
  return bytes;
}

void control_keep_limits(struct collector *collector) {
  if (collector->ended)
    return;
  if (collector->settings->max_bytes && bytes_now(collector) >= collector->settings->max_bytes)
    collector_end_recording(collector, "--max-size was reached: later events are not in the trace");
  else if (collector->ends_ns && os_monotonic_ns() >= collector->ends_ns)
    collector_end_recording(collector, "--duration is over: later events are not in the trace");
}

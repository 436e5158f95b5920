/* SPDX-License-Identifier: MIT */
#include "capture/recorder/collector_state.h"
#include "capture/recorder/processes/ring_reading.h"

#include "capture/recorder/processes/process_state.h"
#include "core/base/os.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

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
    process_regions_pause(process, BY_OPERATOR, false);
  else if (!(process_regions_paused(process) & PAUSED_FROM_START))
    process_regions_pause(process, PAUSED_BY_CONTROL, true);
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
  if (!settings->restorer_pid)
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
  collector_advance_tick(collector);
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
      process_regions_set_bursts(process, next_bursts(process->bursts, begins));
  }
  collector_advance_tick(collector);
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
                             process->given_up ? "given up" : state_name(process_regions_paused(process)));
  if (!object)
    return NULL;
  const struct trace_totals *totals = trace_writer_totals(process->writer);
  json_object_set_new(object, "events", json_integer((json_int_t)totals->events));
  json_object_set_new(object, "threads", json_integer(totals->threads));
  json_object_set_new(object, "dropped", json_integer((json_int_t)(totals->dropped - process->skipped)));
  json_object_set_new(object, "file_bytes", json_integer((json_int_t)totals->file_bytes));
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
                            (json_int_t)collector->recorded, "processes", list);
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

/* SPDX-License-Identifier: MIT */
#include "convert/inspect/info.h"

#include "convert/history/trace_info.h"
#include "core/base/json.h"
#include "core/trace/layout.h"
#include "core/trace/summary.h"
#include "core/workload/witness.h"

#include <stdlib.h>

static void set_sample(json_t *object, const char *key, uint64_t value) {
  if (value != TRACE_SAMPLE_MISSING)
    json_set_count(object, key, value);
}

static json_t *recorded_json(const struct recorded_samples *samples) {
  json_t *object = json_object();
  json_set_count(object, "samples", samples->seen);
  set_sample(object, "rss_anon_peak_bytes", samples->rss_anon_peak_bytes);
  set_sample(object, "vm_size_peak_bytes", samples->vm_size_peak_bytes);
  set_sample(object, "vm_hwm_bytes", samples->vm_hwm_bytes);
  set_sample(object, "minor_faults", samples->minor_faults);
  set_sample(object, "major_faults", samples->major_faults);
  set_sample(object, "user_ns", samples->user_ns);
  set_sample(object, "system_ns", samples->system_ns);
  return object;
}

/* The kernel's counters at the process's end are exact; the last sample was earlier. */
static void take_final(json_t *recorded, json_t *final) {
  static const char *const keys[] = {"minor_faults", "major_faults", "user_ns", "system_ns"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (json_is_integer(json_object_get(final, keys[i])))
      json_object_set(recorded, keys[i], json_object_get(final, keys[i]));
}

static void set_bytes(json_t *object, uint64_t file_bytes, uint64_t events) {
  json_set_count(object, "file_bytes", file_bytes);
  if (events)
    json_object_set_new(object, "bytes_per_event", json_real((double)file_bytes / (double)events));
}

static json_t *columns_json(const struct trace_summary *summary) {
  json_t *names = json_array();
  if (summary->columns >> COLUMN_LATENCY & 1)
    json_array_append_new(names, json_string("latency"));
  if (summary->columns >> COLUMN_SLACK & 1)
    json_array_append_new(names, json_string("usable"));
  if (summary->columns >> COLUMN_STACK & 3)
    json_array_append_new(names, json_string("stacks"));
  return names;
}

static json_t *accesses_json(const struct trace_summary *summary) {
  const struct trace_access_totals *totals = &summary->accesses;
  json_t *object = json_object();
  json_set_count(object, "rows", summary->access_rows);
  json_set_count(object, "file_bytes", summary->access_bytes);
  json_set_count(object, "filter_bytes", summary->access_filter_bytes);
  if (!summary->truncated) {
    json_set_count(object, "calls", totals->calls);
    json_set_count(object, "objects", totals->objects);
    json_set_count(object, "other", totals->other);
  }
  if (totals->in_bursts)
    json_set_count(object, "bursts", (totals->switches + 1) / 2);
  if (totals->lost)
    json_set_count(object, "lost", totals->lost);
  for (int total = 0; total < ACCESS_TOTAL_LIMIT; total++)
    if (totals->known[total])
      json_set_count(object, access_total_names[total], totals->counted[total]);
  return object;
}

static int add_name(void *names, uint32_t thread, const char *name) {
  char key[16];
  snprintf(key, sizeof key, "%u", thread);
  json_object_set_new(names, key, json_string(name));
  return 0;
}

/* [{"time_ns", "thread", "events", "text"}] in the order of time; without time_ns if the clock has no rate. */
static json_t *marks_json(struct trace_reader *reader, struct error *error) {
  const struct trace_summary *summary = trace_reader_summary(reader);
  json_t *array = NULL;
  struct recorded_marks marks;
  if (recorded_marks_load(&marks, reader, error) == 0)
    array = json_array();
  for (size_t i = 0; array && i < marks.list.count; i++) {
    const struct recorded_mark *mark = &marks.list.at[i];
    json_t *object = json_pack("{sI sI ss}", "thread", (json_int_t)mark->thread, "events", (json_int_t)mark->events,
                               "text", mark->text);
    if (summary->clock_hz > 0)
      json_set_count(object, "time_ns", trace_stamp_ns(summary, mark->stamp));
    json_array_append_new(array, object);
  }
  recorded_marks_free(&marks);
  return array;
}

/* Takes ownership of marks. */
static json_t *trace_json(struct trace_reader *reader, const struct witness *witness,
                          const struct recorded_samples *samples, json_t *marks) {
  const struct trace_summary *summary = trace_reader_summary(reader);
  json_t *object = json_object(), *witness_object = witness_json(witness);
  json_object_set_new(object, "kind", json_string("trace"));
  json_set_count(object, "events", witness->events);
  json_object_set_new(object, "calls", call_counts_json(witness->calls));
  json_set_count(object, "threads", summary->threads);
  json_set_count(object, "dropped", summary->dropped);
  json_object_set_new(object, "truncated", json_boolean(summary->truncated));
  if (summary->truncated)
    json_set_count(object, "truncated_at", summary->truncated_at);
  set_bytes(object, summary->file_bytes, witness->events);
  json_set_count(object, "peak_live_bytes", witness->peak_live_bytes);
  json_set_count(object, "peak_live_os_page_bytes", witness->peak_live_os_page_bytes);
  json_set_count(object, "peak_live_objects", witness->peak_live_objects);
  json_set_count(object, "live_at_end", witness->live_at_end);
  if (summary->clock_hz > 0)
    json_set_count(object, "duration_ns", (uint64_t)trace_stamp_ns(summary, summary->last_stamp));
  json_t *footer = json_loads(summary->footer_json, 0, NULL), *recorded = recorded_json(samples);
  json_object_set_new(object, "recorded", recorded);
  take_final(recorded, json_object_get(footer, "final"));
  json_object_set(object, "ok", json_object_get(witness_object, "ok"));
  json_object_set_new(object, "witness", witness_object);
  json_object_set_new(object, "marks", marks);
  if (summary->columns >> COLUMN_LATENCY & 15)
    json_object_set_new(object, "columns", columns_json(summary));
  if (summary->stack_nodes)
    json_set_count(object, "stack_nodes", summary->stack_nodes);
  if (summary->accesses.recorded)
    json_object_set_new(object, "accesses", accesses_json(summary));
  json_t *names = json_object();
  struct error ignored = {0}; /* an error in names must not hide the other keys */
  trace_reader_thread_names(reader, add_name, names, &ignored);
  if (json_object_size(names))
    json_object_set(object, "thread_names", names);
  json_decref(names);
  json_t *about = json_loads(summary->info_json, 0, NULL);
  json_object_set_new(object, "info", about);
  json_object_set_new(object, "footer", footer);
  return object;
}

json_t *info_of_trace(struct trace_reader *reader, const struct history_options *options, struct error *error) {
  struct witness witness;
  struct recorded_samples *samples = malloc(sizeof *samples);
  json_t *object = NULL, *marks = NULL;
  if (!samples)
    error_set(error, trace_reader_path(reader), "out of memory");
  else if (recorded_samples_load(samples, reader, error) == 0 &&
           history_run(reader, options, NULL, &witness, error) == 0 && (marks = marks_json(reader, error)))
    object = trace_json(reader, &witness, samples, marks);
  free(samples);
  return object;
}

/* A workload does not store the peaks of the recording's samples, only the thinned samples; thinning keeps the RssAnon
   peak. */
static json_t *recorded_of_rows(const json_t *rows) {
  json_t *object = json_object(), *row;
  json_int_t rss = -1, vm = -1;
  size_t i;
  json_set_count(object, "samples", json_array_size(rows));
  json_array_foreach((json_t *)rows, i, row) {
    const json_t *a = json_array_get(row, 1), *b = json_array_get(row, 2);
    if (json_is_integer(a) && json_integer_value(a) > rss)
      rss = json_integer_value(a);
    if (json_is_integer(b) && json_integer_value(b) > vm)
      vm = json_integer_value(b);
  }
  if (rss >= 0)
    json_set_count(object, "rss_anon_peak_bytes", (uint64_t)rss);
  if (vm >= 0)
    json_set_count(object, "vm_size_peak_bytes", (uint64_t)vm);
  return object;
}

json_t *info_of_workload(const struct workload *workload, struct error *error) {
  const struct workload_header *header = &workload->header;
  json_error_t wrong;
  size_t bytes;
  const char *info = workload_info(workload, &bytes);
  json_t *stored = json_loadb(info, bytes, 0, &wrong);
  if (!json_is_object(stored)) {
    error_at(error, workload->path, header->info_offset, "info is not a JSON object: %s",
             stored ? "another type" : wrong.text);
    json_decref(stored);
    return NULL;
  }
  json_t *object = json_object(), *witness = json_object_get(stored, "witness");
  json_object_set_new(object, "kind", json_string("workload"));
  json_set_count(object, "events", header->ops);
  json_set_count(object, "ops", header->ops);
  json_set_count(object, "words", header->words);
  json_object_set(object, "calls", json_object_get(stored, "calls"));
  json_set_count(object, "threads", header->threads);
  json_set_count(object, "slots", header->slots);
  json_object_set(object, "dropped", json_object_get(witness, "dropped"));
  json_object_set(object, "truncated", json_object_get(witness, "truncated"));
  set_bytes(object, header->file_bytes, header->ops);
  json_set_count(object, "peak_live_bytes", header->peak_live_bytes);
  json_set_count(object, "peak_live_os_page_bytes", header->peak_live_os_page_bytes);
  json_set_count(object, "peak_live_objects", header->peak_live_objects);
  json_set_count(object, "peak_position", header->peak_position);
  json_set_count(object, "live_at_end", header->live_at_end);
  json_object_set_new(object, "recorded", recorded_of_rows(json_object_get(stored, "recorded")));
  json_object_del(stored, "recorded");
  json_object_set_new(object, "info", stored);
  return object;
}

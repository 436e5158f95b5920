/* SPDX-License-Identifier: MIT */
#include "convert/inspect/inspect.h"

#include "convert/history/trace_info.h"
#include "core/base/json.h"
#include "core/trace/layout.h"
#include "core/trace/summary.h"
#include "core/workload/witness.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
  json_t *peak = json_object_get(final, "peak_rss_bytes");
  if (json_integer_value(peak) > json_integer_value(json_object_get(recorded, "vm_hwm_bytes")))
    json_object_set(recorded, "vm_hwm_bytes", peak);
}

static void set_bytes(json_t *object, uint64_t file_bytes, uint64_t events) {
  json_set_count(object, "file_bytes", file_bytes);
  if (events)
    json_object_set_new(object, "bytes_per_event", json_real((double)file_bytes / (double)events));
}

/* The optional columns that the trace has. */
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

/* The trace's data accesses: what is in the file and what was counted while they were recorded. */
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
  struct error ignored = {""}; /* an error in names must not hide the other keys */
  trace_reader_thread_names(reader, add_name, names, &ignored);
  if (json_object_size(names))
    json_object_set(object, "thread_names", names);
  json_decref(names);
  json_t *about = json_loads(summary->info_json, 0, NULL);
  json_object_set(object, "distilled", json_object_get(about, "distilled"));
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
  json_object_set(object, "distilled", json_object_get(stored, "distilled"));
  json_object_set_new(object, "info", stored);
  return object;
}

/* A number with thousands separated: large counts are unreadable otherwise. */
static const char *grouped(uint64_t value, char text[32]) {
  char digits[24];
  int count = snprintf(digits, sizeof digits, "%" PRIu64, value), out = 0;
  for (int i = 0; i < count; i++) {
    if (i && (count - i) % 3 == 0)
      text[out++] = ',';
    text[out++] = digits[i];
  }
  text[out] = '\0';
  return text;
}

static uint64_t count_of(const json_t *object, const char *key) {
  return (uint64_t)json_integer_value(json_object_get(object, key));
}

static const char *string_of(const json_t *object, const char *key, const char *otherwise) {
  const char *value = json_string_value(json_object_get(object, key));
  return value ? value : otherwise;
}

static void print_count(FILE *out, const char *label, const json_t *object, const char *key) {
  char text[32];
  if (json_is_integer(json_object_get(object, key)))
    fprintf(out, "%-22s %s\n", label, grouped(count_of(object, key), text));
}

static void print_bytes(FILE *out, const char *label, const json_t *object, const char *key) {
  char text[32];
  if (json_is_integer(json_object_get(object, key)))
    fprintf(out, "%-22s %s (%.1f MiB)\n", label, grouped(count_of(object, key), text),
            (double)count_of(object, key) / (1 << 20));
}

/* The origin: what the recorder or importer states about itself. */
static void print_origin(const json_t *info, const json_t *about, FILE *out) {
  fprintf(out, "%-22s %s of %s, from %s\n", "what", string_of(info, "kind", "?"),
          string_of(about, "program", "an unnamed program"), string_of(about, "source", "an unnamed source"));
  time_t start = (time_t)(count_of(about, "start_unix_ns") / 1000000000);
  char text[64];
  struct tm utc;
  if (start && gmtime_r(&start, &utc) && strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc))
    fprintf(out, "%-22s %s\n", "recorded", text);
  if (json_is_integer(json_object_get(info, "duration_ns")))
    fprintf(out, "%-22s %.3f s\n", "duration", (double)count_of(info, "duration_ns") / 1e9);
  if (json_object_get(about, "allocator"))
    fprintf(out, "%-22s %s\n", "allocator", string_of(about, "allocator", "?"));
}

/* What the source of the recording could not record. */
static void print_lacks(const json_t *about, FILE *out) {
  const json_t *lacks = json_object_get(about, "lacks"), *word;
  size_t i;
  if (json_array_size(lacks))
    fprintf(out, "%-22s", "not known");
  json_array_foreach((json_t *)lacks, i, word) {
    fprintf(out, "%s %s", i ? "," : "", json_is_string(word) ? json_string_value(word) : "?");
  }
  if (json_array_size(lacks))
    fprintf(out, "\n");
  if (json_object_get(about, "note"))
    fprintf(out, "%-22s %s\n", "note", string_of(about, "note", "?"));
}

/* Reasons to doubt the recording; prints nothing if there are none. */
static void print_doubts(const json_t *info, const json_t *witness, FILE *out) {
  static const char *const counts[][2] = {
      {"unseen_frees", "unseen frees"},
      {"double_frees", "double frees"},
      {"overlapping_acquires", "overlapping acquires"},
      {"inversions_repaired", "inversions repaired"},
      {"failed_calls", "failed calls"},
  };
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    if (count_of(witness, counts[i][0]))
      print_count(out, counts[i][1], witness, counts[i][0]);
  if (json_is_true(json_object_get(info, "truncated")))
    fprintf(out, "%-22s yes: the end is missing\n", "truncated");
  if (json_is_true(json_object_get(witness, "lacks_start")))
    fprintf(out, "%-22s the recording began after the program did\n", "lacks start");
  if (witness)
    fprintf(out, "%-22s %s\n", "history",
            json_is_true(json_object_get(witness, "ok")) ? "legal" : "NOT legal: see heaptape check");
}

/* A recording in bursts: counts inside bursts and, if known, their share of the program. */
static void print_bursts(const json_t *accesses, FILE *out) {
  double inside = json_number_value(json_object_get(accesses, "program_instructions"));
  double outside = json_number_value(json_object_get(accesses, "outside_program_instructions"));
  print_count(out, "bursts", accesses, "bursts");
  print_count(out, "  program's instructions", accesses, "program_instructions");
  if (inside + outside > 0)
    fprintf(out, "%-22s %.2f %% of all that the program executed\n", "", 100 * inside / (inside + outside));
  print_count(out, "  accesses, unfiltered", accesses, "program_accesses");
  print_count(out, "  system calls", accesses, "program_syscalls");
  print_count(out, "  allocator's instructions", accesses, "allocator_instructions");
  print_count(out, "outside of bursts", accesses, "outside_program_instructions");
  print_count(out, "  allocator's instructions", accesses, "outside_allocator_instructions");
}

/* Accesses of a trace, or of a workload made from one. */
static void print_accesses(const json_t *accesses, FILE *out) {
  if (!accesses)
    return;
  print_count(out, "rows of data accesses", accesses, "rows");
  print_bytes(out, "  bytes in the file", accesses, "file_bytes");
  print_count(out, "  bytes of the filter", accesses, "filter_bytes");
  print_count(out, "  to objects", accesses, "objects");
  print_count(out, "  to other memory", accesses, "other");
  print_count(out, "  lost", accesses, "lost");
  if (json_object_get(accesses, "bursts")) {
    print_bursts(accesses, out);
    return;
  }
  print_count(out, "program's instructions", accesses, "program_instructions");
  print_count(out, "  accesses, unfiltered", accesses, "program_accesses");
  print_count(out, "  system calls", accesses, "program_syscalls");
  print_count(out, "allocator's instructions", accesses, "allocator_instructions");
}

/* One file of a rotated recording. */
static void print_rotation(const json_t *rotation, FILE *out) {
  if (!rotation)
    return;
  uint64_t first = count_of(rotation, "first"), oldest = count_of(rotation, "oldest_kept");
  fprintf(out, "%-22s file %" PRIu64 " of recording %s, which began with file %" PRIu64, "rotated",
          count_of(rotation, "file"), string_of(rotation, "set", "?"), first);
  if (oldest > first)
    fprintf(out, "; files before %" PRIu64 " were deleted", oldest);
  fputc('\n', out);
}

/* A recording within a budget: how much of its time was recorded. Events missing for this reason are in `dropped`. */
static void print_budget(const json_t *budget, FILE *out) {
  double ns = json_number_value(json_object_get(budget, "ns"));
  if (!budget)
    return;
  fprintf(out, "%-22s %.3g %% of the program's CPU time; recording cost %.3g %%\n", "budget",
          json_number_value(json_object_get(budget, "percent")),
          json_number_value(json_object_get(budget, "used_percent")));
  fprintf(out, "%-22s %" PRIu64 ", %.3f s of %.3f s\n", "  bursts", count_of(budget, "bursts"),
          json_number_value(json_object_get(budget, "recorded_ns")) / 1e9, ns / 1e9);
}

/* The expected errors of figures. */
static void print_expected(const json_t *expected, FILE *out) {
  const char *label = "expected error";
  for (void *at = json_object_iter((json_t *)expected); at; at = json_object_iter_next((json_t *)expected, at)) {
    fprintf(out, "%-22s %-22s %.2g %%\n", label, json_object_iter_key(at),
            json_number_value(json_object_iter_value(at)));
    label = "";
  }
}

/* A distillate: its share of the whole, and the expected errors of its figures. */
static void print_distilled(const json_t *distilled, FILE *out) {
  char text[32];
  if (!distilled)
    return;
  fprintf(out, "%-22s %.3g %% of %s ops, for %s\n", "distillate of",
          100 * json_number_value(json_object_get(distilled, "ratio")),
          grouped(count_of(json_object_get(distilled, "whole"), "ops"), text), string_of(distilled, "kind", "?"));
  print_expected(json_object_get(distilled, "expected"), out);
}

/* A program may set one per request: the first few are enough. */
static void print_marks(const json_t *marks, FILE *out) {
  enum { SHOWN = 20 };
  const char *label = "marks";
  for (size_t i = 0; i < json_array_size(marks) && i < SHOWN; i++, label = "") {
    const json_t *mark = json_array_get(marks, i);
    fprintf(out, "%-22s %.6f s, thread %" PRIu64 ": %s\n", label, (double)count_of(mark, "time_ns") / 1e9,
            count_of(mark, "thread"), string_of(mark, "text", ""));
  }
  if (json_array_size(marks) > SHOWN)
    fprintf(out, "%-22s ... and %zu more\n", "", json_array_size(marks) - SHOWN);
}

/* A pool may have a thousand threads: the first few names are enough. */
static void print_names(json_t *names, FILE *out) {
  enum { SHOWN = 16 };
  const char *thread, *label = "thread names";
  json_t *name;
  int shown = 0;
  json_object_foreach(names, thread, name) {
    if (shown++ == SHOWN) {
      fprintf(out, "%-22s ... and %zu more\n", "", json_object_size(names) - SHOWN);
      return;
    }
    fprintf(out, "%-22s %s: %s\n", label, thread, json_string_value(name));
    label = "";
  }
}

/* The text for people, with control characters escaped; the caller frees it. */
static char *escaped_text(const char *text) {
  size_t room = 4 * strlen(text) + 1;
  char *shown = malloc(room);
  if (shown)
    escape_controls(shown, room, text);
  return shown;
}

/* A copy in which all names and texts, which may come from the file, can be printed. */
static json_t *escaped(const json_t *value) {
  const char *key;
  json_t *item, *copy;
  size_t i;
  if (json_is_string(value)) {
    char *text = escaped_text(json_string_value(value));
    copy = json_string(text);
    free(text);
    return copy;
  }
  if (json_is_array(value)) {
    copy = json_array();
    json_array_foreach((json_t *)value, i, item) json_array_append_new(copy, escaped(item));
    return copy;
  }
  if (!json_is_object(value))
    return json_deep_copy(value);
  copy = json_object();
  json_object_foreach((json_t *)value, key, item) {
    char *text = escaped_text(key);
    json_object_set_new(copy, text, escaped(item));
    free(text);
  }
  return copy;
}

void info_print(const json_t *figures, FILE *out) {
  json_t *info = escaped(figures);
  const json_t *about = json_object_get(info, "info"), *recorded = json_object_get(info, "recorded");
  const json_t *witness = json_object_get(info, "witness");
  const char *call, *indent = "calls";
  json_t *calls = json_object_get(info, "calls"), *count;
  char text[32];
  print_origin(info, about, out);
  print_count(out, "events", info, "events");
  json_object_foreach(calls, call, count) {
    fprintf(out, "%-22s %-22s %15s\n", indent, call, grouped((uint64_t)json_integer_value(count), text));
    indent = "";
  }
  print_count(out, "threads", info, "threads");
  print_names(json_object_get(info, "thread_names"), out);
  print_count(out, "dropped", info, "dropped");
  print_bytes(out, "file bytes", info, "file_bytes");
  if (json_object_get(info, "bytes_per_event"))
    fprintf(out, "%-22s %.2f\n", "bytes per event", json_real_value(json_object_get(info, "bytes_per_event")));
  print_bytes(out, "peak live bytes", info, "peak_live_bytes");
  print_count(out, "peak live objects", info, "peak_live_objects");
  print_count(out, "live at the end", info, "live_at_end");
  print_bytes(out, "recorded RssAnon peak", recorded, "rss_anon_peak_bytes");
  print_bytes(out, "recorded VmSize peak", recorded, "vm_size_peak_bytes");
  const json_t *columns = json_object_get(info, "columns");
  for (size_t i = 0; i < json_array_size(columns); i++)
    fprintf(out, "%-22s %s\n", i ? "" : "optional columns", json_string_value(json_array_get(columns, i)));
  print_count(out, "stack nodes", info, "stack_nodes");
  print_accesses(json_object_get(json_object_get(info, "accesses") ? info : about, "accesses"), out);
  print_rotation(json_object_get(about, "rotation"), out);
  print_budget(json_object_get(json_object_get(info, "footer"), "budget"), out);
  print_distilled(json_object_get(about, "distilled"), out);
  print_marks(json_object_get(info, "marks"), out);
  print_lacks(about, out);
  if (json_object_get(json_object_get(info, "footer"), "note"))
    fprintf(out, "%-22s %s\n", "import", string_of(json_object_get(info, "footer"), "note", "?"));
  print_doubts(info, witness ? witness : json_object_get(about, "witness"), out);
  json_decref(info);
}

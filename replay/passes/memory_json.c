/* SPDX-License-Identifier: MIT */
#include "replay/passes/memory_json.h"

#include "replay/parent/report_json.h"
#include "replay/passes/fragmentation_json.h"
#include "replay/passes/map_json.h"

/* Each sample counts for the ops up to the next one. */
static double mean_over_positions(const struct replay_result *result, uint64_t baseline) {
  double sum = 0;
  uint64_t last = result->timeline[result->rows - 1].position;
  if (last == 0)
    return (double)above(result->timeline[0].rss_anon_bytes, baseline);
  for (uint64_t row = 0; row + 1 < result->rows; row++)
    sum += (double)above(result->timeline[row].rss_anon_bytes, baseline) *
           (double)(result->timeline[row + 1].position - result->timeline[row].position);
  return sum / (double)last;
}

static void add_timeline(json_t *into, const struct replay_result *result, const struct baseline *baseline) {
  json_t *timeline = json_array();
  for (uint64_t index = 0; index < result->rows; index++) {
    const struct replay_row *row = &result->timeline[index];
    json_array_append_new(timeline, json_pack("[o, o, o, o]", json_unsigned(row->position),
                                              json_unsigned(above(row->rss_anon_bytes, baseline->rss_anon_bytes)),
                                              json_unsigned(above(row->vm_size_bytes, baseline->vm_size_bytes)),
                                              json_unsigned(row->live_bytes)));
  }
  json_set_count(into, "rss_anon_mean_bytes", (uint64_t)mean_over_positions(result, baseline->rss_anon_bytes));
  json_object_set_new(into, "timeline", timeline);
  if (result->rows_lost > 0)
    json_set_count(into, "timeline_rows_lost", result->rows_lost);
}

/* The larger of the maxima of the samples and of the readings before system calls; exact where the latter exist and no
   two threads ran at the same time. */
static void add_peaks(json_t *into, const struct run *run, const struct baseline *baseline) {
  const struct replay_result *result = run->result;
  uint64_t rss = run->syscalls.peak.rss_anon_bytes, vm = run->syscalls.peak.vm_size_bytes;
  uint64_t position = run->syscalls.rss_peak_position;
  for (uint64_t index = 0; index < result->rows; index++) {
    const struct replay_row *row = &result->timeline[index];
    if (row->rss_anon_bytes > rss) {
      rss = row->rss_anon_bytes;
      position = row->position;
    }
    vm = row->vm_size_bytes > vm ? row->vm_size_bytes : vm;
  }
  bool exact = !run->syscalls.missing_because && order_by_turns(result->setup.order);
  json_set_count(into, "rss_anon_peak_bytes", above(rss, baseline->rss_anon_bytes));
  json_set_count(into, "rss_anon_peak_position", position);
  json_set_count(into, "vm_size_peak_bytes", above(vm, baseline->vm_size_bytes));
  json_object_set_new(into, "peaks", json_string(exact ? "exact" : "sampled"));
  /* The kernel's own maximum, of the whole process: to check the other peaks. */
  json_set_count(into, "vm_hwm_bytes", result->vm_hwm_bytes);
}

static json_t *by_kind(const uint64_t values[COUNTED_SYSCALLS]) {
  json_t *object = json_object();
  for (int number = 0; number < COUNTED_SYSCALLS; number++)
    json_set_count(object, syscall_names[number], values[number]);
  return object;
}

static void add_syscalls(json_t *into, const struct syscalls *syscalls) {
  if (syscalls->missing_because) {
    json_object_set_new(into, "syscalls_missing_because", json_string(syscalls->missing_because));
    return;
  }
  json_object_set_new(into, "syscalls", by_kind(syscalls->counts));
  json_object_set_new(into, "syscall_bytes", by_kind(syscalls->bytes));
  json_t *rows = json_array();
  for (uint64_t index = 0; index < syscalls->row_count; index++) {
    const struct syscall_row *row = &syscalls->rows[index];
    json_array_append_new(rows, json_pack("[o, s, o]", json_unsigned(row->position), syscall_names[row->number],
                                          json_unsigned(row->bytes)));
  }
  json_object_set_new(into, "syscall_rows", rows);
  if (syscalls->rows_lost > 0)
    json_set_count(into, "syscall_rows_lost", syscalls->rows_lost);
}

/* The memory that the allocator holds with nothing live, before and after its purge call. */
static void add_held(json_t *into, const struct run *run, const struct baseline *baseline) {
  const struct replay_result *result = run->result;
  json_t *held = json_object();
  json_set_count(held, "rss_anon_bytes", above(result->freed.rss_anon_bytes, baseline->rss_anon_bytes));
  json_set_count(held, "vm_size_bytes", above(result->freed.vm_size_bytes, baseline->vm_size_bytes));
  json_object_set_new(held, "purge_call", result->purge_call[0] ? json_string(result->purge_call) : json_null());
  if (result->purge_call[0]) {
    json_set_count(held, "purged_rss_anon_bytes", above(result->purged.rss_anon_bytes, baseline->rss_anon_bytes));
    json_set_count(held, "purged_vm_size_bytes", above(result->purged.vm_size_bytes, baseline->vm_size_bytes));
  }
  if (!run->syscalls.missing_because)
    json_object_set_new(held, "syscalls", by_kind(run->syscalls.emptying_counts));
  json_object_set_new(into, "held", held);
}

void report_memory(json_t *into, const struct run *run, const struct baseline *baseline) {
  const struct replay_result *result = run->result;
  add_peaks(into, run, baseline);
  add_timeline(into, result, baseline);
  add_syscalls(into, &run->syscalls);
  json_set_count(into, "rss_anon_baseline_bytes", baseline->rss_anon_bytes);
  json_set_count(into, "vm_size_baseline_bytes", baseline->vm_size_bytes);
  json_set_count(into, "rss_anon_start_bytes", above(result->rss_anon_start_bytes, baseline->rss_anon_bytes));
  json_set_count(into, "rss_anon_end_bytes", above(result->rss_anon_end_bytes, baseline->rss_anon_bytes));
  json_set_count(into, "vm_size_end_bytes", above(result->vm_size_end_bytes, baseline->vm_size_bytes));
  json_set_count(into, "live_bytes_end", result->live_bytes_end);
  json_set_count(into, "live_bytes_peak", result->live_bytes_peak);
  json_set_count(into, "page_faults", (int64_t)result->page_faults > 0 ? result->page_faults : 0);
  json_set_count(into, "startup_page_faults", result->startup_page_faults);
  json_set_count(into, "page_faults_major", result->page_faults_major);
  add_held(into, run, baseline);
  json_object_set_new(into, "memory_map", report_map(result));
  json_object_set_new(into, "fragmentation", report_fragmentation(result, baseline));
}

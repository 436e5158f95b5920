#include "replay/report.h"

#include "replay/report_map.h"

#include <inttypes.h>
#include <stdio.h>

const char *pass_name(enum replay_pass pass) {
  static const char *const names[] = {"time", "memory", "bare", "verify"};
  return names[pass];
}

const char *order_name(enum replay_order order) {
  static const char *const names[] = {"recorded", "causal", "window"};
  return names[order];
}

const char *touch_name(enum touch_policy touch) {
  static const char *const names[] = {"recorded", "first", "pages", "all", "none"};
  return names[touch];
}

static json_t *integer(uint64_t value) {
  return json_integer((json_int_t)value);
}

/* Allocators may give memory back that the engine had before them; less than the baseline is none. */
static uint64_t above(uint64_t value, uint64_t baseline) {
  return value > baseline ? value - baseline : 0;
}

double report_stream_cycles(const struct run *run) {
  return (double)run->result->cpu_ns * run->cycles_hz / 1e9;
}

/* A single reading less the counter's cost, in whole cycles. */
static uint64_t net(uint64_t cycles, double overhead) {
  return above(cycles, (uint64_t)(overhead + 0.5));
}

static uint64_t net_total(const struct replay_call *call, double overhead) {
  double total = (double)call->cycles_total - (double)call->count * overhead;
  return total > 0 ? (uint64_t)total : 0;
}

static json_t *histogram_json(const struct histogram *histogram, double overhead) {
  json_t *rows = json_array();
  for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
    if (histogram->counts[bucket] > 0)
      json_array_append_new(rows, json_pack("[o, o]", integer(net(histogram_lower(bucket), overhead)),
                                            integer(histogram->counts[bucket])));
  }
  return rows;
}

static json_t *call_json(const struct replay_call *call, double overhead) {
  uint64_t total = net_total(call, overhead);
  return json_pack("{s:o, s:o, s:f, s:o, s:o, s:o, s:o, s:o}", "count", integer(call->count), "cycles_total",
                   integer(total), "mean", (double)total / (double)call->count, "p50",
                   integer(net(histogram_percentile(&call->histogram, 0.5), overhead)), "p99",
                   integer(net(histogram_percentile(&call->histogram, 0.99), overhead)), "p999",
                   integer(net(histogram_percentile(&call->histogram, 0.999), overhead)), "max",
                   integer(net(call->cycles_max, overhead)), "histogram", histogram_json(&call->histogram, overhead));
}

static void add_time(json_t *into, const struct replay_result *result) {
  json_t *calls = json_object();
  uint64_t total = 0;
  for (int id = 0; id < CALL_LIMIT; id++) {
    const struct replay_call *call = &result->calls[id];
    if (call->count == 0)
      continue;
    json_object_set_new(calls, call_table[id].name, call_json(call, result->counter_overhead_cycles));
    total += net_total(call, result->counter_overhead_cycles);
  }
  json_object_set_new(into, "calls", calls);
  json_object_set_new(into, "cycles_total", integer(total));
  json_object_set_new(into, "counter_overhead_cycles", json_real(result->counter_overhead_cycles));
}

/* Each sample stands for the ops up to the next one. */
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
  uint64_t rss_anon_peak = 0, vm_size_peak = 0;
  for (uint64_t index = 0; index < result->rows; index++) {
    const struct replay_row *row = &result->timeline[index];
    uint64_t rss_anon = above(row->rss_anon_bytes, baseline->rss_anon_bytes);
    uint64_t vm_size = above(row->vm_size_bytes, baseline->vm_size_bytes);
    rss_anon_peak = rss_anon > rss_anon_peak ? rss_anon : rss_anon_peak;
    vm_size_peak = vm_size > vm_size_peak ? vm_size : vm_size_peak;
    json_array_append_new(timeline, json_pack("[o, o, o, o]", integer(row->position), integer(rss_anon),
                                              integer(vm_size), integer(row->live_bytes)));
  }
  json_object_set_new(into, "rss_anon_peak_bytes", integer(rss_anon_peak));
  json_object_set_new(into, "vm_size_peak_bytes", integer(vm_size_peak));
  json_object_set_new(into, "rss_anon_mean_bytes",
                      integer((uint64_t)mean_over_positions(result, baseline->rss_anon_bytes)));
  json_object_set_new(into, "timeline", timeline);
  if (result->rows_lost > 0)
    json_object_set_new(into, "timeline_rows_lost", integer(result->rows_lost));
}

static void add_syscalls(json_t *into, const struct syscalls *syscalls) {
  if (syscalls->missing_because) {
    json_object_set_new(into, "syscalls_missing_because", json_string(syscalls->missing_because));
    return;
  }
  json_t *counts = json_object(), *bytes = json_object();
  for (int number = 0; number < COUNTED_SYSCALLS; number++) {
    json_object_set_new(counts, syscall_names[number], integer(syscalls->counts[number]));
    json_object_set_new(bytes, syscall_names[number], integer(syscalls->bytes[number]));
  }
  json_object_set_new(into, "syscalls", counts);
  json_object_set_new(into, "syscall_bytes", bytes);
}

static void add_memory(json_t *into, const struct run *run, const struct baseline *baseline) {
  const struct replay_result *result = run->result;
  add_timeline(into, result, baseline);
  add_syscalls(into, &run->syscalls);
  json_object_set_new(into, "rss_anon_baseline_bytes", integer(baseline->rss_anon_bytes));
  json_object_set_new(into, "vm_size_baseline_bytes", integer(baseline->vm_size_bytes));
  json_object_set_new(into, "rss_anon_start_bytes",
                      integer(above(result->rss_anon_start_bytes, baseline->rss_anon_bytes)));
  json_object_set_new(into, "rss_anon_end_bytes", integer(above(result->rss_anon_end_bytes, baseline->rss_anon_bytes)));
  json_object_set_new(into, "vm_size_end_bytes", integer(above(result->vm_size_end_bytes, baseline->vm_size_bytes)));
  json_object_set_new(into, "live_bytes_end", integer(result->live_bytes_end));
  json_object_set_new(into, "live_bytes_peak", integer(result->live_bytes_peak));
  json_object_set_new(into, "page_faults", integer((int64_t)result->page_faults > 0 ? result->page_faults : 0));
  json_object_set_new(into, "memory_map", report_map(result));
}

static json_t *folded_json(const struct replay_result *result) {
  json_t *folded = json_object();
  for (int id = 0; id < CALL_LIMIT; id++) {
    if (result->folded[id] > 0)
      json_object_set_new(folded, call_table[id].name, integer(result->folded[id]));
  }
  return folded;
}

json_t *report_run(const struct run *run, const struct run_request *request, const struct baseline *baseline,
                   double engine_cycles_per_op) {
  const struct replay_result *result = run->result;
  char order[48];
  snprintf(order, sizeof order, request->order == ORDER_WINDOW ? "%s=%" PRIu64 : "%s", order_name(request->order),
           request->window);
  json_t *out = json_pack(
      "{s:s, s:s, s:s, s:o, s:o, s:o, s:f, s:o, s:o, s:{s:o, s:o}, s:o}", "pass", pass_name(request->pass), "order",
      order, "touch", touch_name(result->setup.touch), "ops", integer(result->ops), "threads",
      integer(result->thread_count), "wall_ns", integer(result->wall_ns), "cycles_hz", run->cycles_hz, "failed_calls",
      integer(result->failed_calls), "skipped_ops", integer(result->skipped), "waits", "count", integer(result->waits),
      "cycles", integer(result->wait_cycles), "folded_calls", folded_json(result));
  if (request->null_allocator)
    json_object_set_new(out, "null_allocator", json_true());
  if (engine_cycles_per_op >= 0)
    json_object_set_new(out, "engine_cycles_per_op", json_real(engine_cycles_per_op));
  switch (request->pass) {
  case PASS_TIME:
    add_time(out, result);
    break;
  case PASS_BARE:
    json_object_set_new(out, "cycles_total", integer((uint64_t)report_stream_cycles(run)));
    json_object_set_new(out, "cpu_ns", integer(result->cpu_ns));
    break;
  case PASS_MEMORY:
    add_memory(out, run, baseline);
    break;
  case PASS_VERIFY:
    json_object_set_new(out, "verified",
                        json_pack("{s:o, s:o, s:o, s:o}", "objects", integer(result->verified_objects), "bytes",
                                  integer(result->verified_bytes), "partly_stamped_objects",
                                  integer(result->verified_partly), "live_objects_at_end",
                                  integer(result->verified_at_end)));
    break;
  }
  return out;
}

/* SPDX-License-Identifier: MIT */
#include "replay/passes/time/time_json.h"

#include "core/workload/workload_read.h"
#include "replay/parent/report_json.h"

#include <math.h>
#include <stdlib.h>

/* Fewer empty calls among the timed ones do not suffice for a mean: then those taken before the first op are used. */
enum { ENOUGH_EMPTY_CALLS = 1000 };

/* Returns a single reading minus the counter's cost, in whole cycles. Some calls are below that cost by chance: they
   become 0, and are counted as `below_overhead`. Sums are never cut off at 0. */
static uint64_t net(uint64_t cycles, double overhead) {
  return above(cycles, (uint64_t)(overhead + 0.5));
}

static double mean(const struct replay_call *call, double overhead) {
  return call->count ? (double)call->cycles_total / (double)call->count - overhead : 0;
}

/* Returns the total as if preempted calls had taken as long as the others. */
static int64_t net_total(const struct replay_call *call, double overhead) {
  return llround(mean(call, overhead) * (double)(call->count + call->preempted));
}

static json_t *histogram_json(const struct histogram *histogram, double overhead) {
  json_t *rows = json_array();
  for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
    if (histogram->counts[bucket] > 0)
      json_array_append_new(rows, json_pack("[o, o]", json_unsigned(net(histogram_lower(bucket), overhead)),
                                            json_unsigned(histogram->counts[bucket])));
  }
  return rows;
}

static json_t *call_json(const struct replay_call *call, double overhead) {
  return json_pack("{s:o, s:I, s:f, s:o, s:o, s:o, s:o, s:o}", "count", json_unsigned(call->count + call->preempted),
                   "cycles_total", (json_int_t)net_total(call, overhead), "mean", mean(call, overhead), "p50",
                   json_unsigned(net(histogram_percentile(&call->histogram, 0.5), overhead)), "p99",
                   json_unsigned(net(histogram_percentile(&call->histogram, 0.99), overhead)), "p999",
                   json_unsigned(net(histogram_percentile(&call->histogram, 0.999), overhead)), "max",
                   json_unsigned(net(call->cycles_max, overhead)), "histogram",
                   histogram_json(&call->histogram, overhead));
}

static json_t *sizes_json(const struct replay_call classes[SIZE_CLASSES], double overhead) {
  json_t *sizes = json_array();
  for (unsigned class = 0; class < SIZE_CLASSES; class ++) {
    if (classes[class].count + classes[class].preempted == 0)
      continue;
    json_t *size = call_json(&classes[class], overhead);
    uint64_t last = size_class_last(class);
    json_object_set_new(size, "up_to_bytes", last == UINT64_MAX ? json_null() : json_unsigned(last));
    json_array_append_new(sizes, size);
  }
  return sizes;
}

static void merge(struct replay_call *into, const struct replay_call classes[SIZE_CLASSES]) {
  for (unsigned class = 0; class < SIZE_CLASSES; class ++) {
    into->count += classes[class].count;
    into->preempted += classes[class].preempted;
    into->cycles_total += classes[class].cycles_total;
    into->cycles_max = classes[class].cycles_max > into->cycles_max ? classes[class].cycles_max : into->cycles_max;
    histogram_merge(&into->histogram, &classes[class].histogram);
  }
}

static uint64_t count_below(const struct histogram *histogram, double cycles) {
  uint64_t count = 0;
  for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS && (double)histogram_lower(bucket) < cycles; bucket++)
    count += histogram->counts[bucket];
  return count;
}

/* Adds "calls", "cycles_total" and "below_overhead"; returns the total. */
static int64_t add_calls(json_t *into, const struct replay_result *result, double overhead) {
  json_t *calls = json_object();
  int64_t total = 0;
  uint64_t below = 0;
  for (int id = 0; id < TIMED_CALLS; id++) {
    struct replay_call all = {0};
    merge(&all, result->calls[id]);
    if (all.count + all.preempted == 0)
      continue;
    json_t *call = call_json(&all, overhead);
    json_object_set_new(call, "sizes", sizes_json(result->calls[id], overhead));
    json_object_set_new(calls, call_table[id].name, call);
    total += net_total(&all, overhead);
    below += count_below(&all.histogram, overhead);
  }
  json_object_set_new(into, "calls", calls);
  json_object_set_new(into, "cycles_total", json_integer(total));
  json_set_count(into, "below_overhead", below);
  return total;
}

static double add_overhead(json_t *into, const struct replay_result *result) {
  struct overhead before = empty_calls_overhead(&result->empty_before), among = empty_calls_overhead(&result->empty);
  bool enough = among.samples >= ENOUGH_EMPTY_CALLS;
  const struct overhead *used = enough ? &among : &before;
  json_object_set_new(into, "counter_overhead_cycles", json_real(used->mean_cycles));
  json_object_set_new(into, "counter_overhead",
                      json_pack("{s:s, s:f, s:f, s:f, s:o, s:o, s:o}", "measured", enough ? "among calls" : "before",
                                "standard_error_cycles", used->standard_error_cycles, "deviation_cycles",
                                used->deviation_cycles, "before_cycles", before.mean_cycles, "samples",
                                json_unsigned(used->samples), "left_out", json_unsigned(used->left_out), "step_cycles",
                                json_unsigned(used->step_cycles)));
  return used->mean_cycles;
}

static int slower_first(const void *left, const void *right) {
  const struct slow_call *a = left, *b = right;
  return a->cycles > b->cycles ? -1 : a->cycles < b->cycles;
}

/* Finds the recorded positions of calls, given by their number in their thread: walks the schedule. UINT64_MAX where it
   can't be read. */
static void find_positions(const struct run_request *request, const struct slow_call *calls, size_t count,
                           uint64_t *positions) {
  struct workload workload;
  struct error ignored = {""};
  for (size_t index = 0; index < count; index++)
    positions[index] = UINT64_MAX;
  uint64_t *done = calloc(request->threads + 1, sizeof *done);
  if (done && workload_open_fd(&workload, request->workload_fd, request->path, &ignored) == 0) {
    struct workload_stream schedule;
    uint64_t buffer[4096], word, position = 0;
    workload_stream_open_buffered(&schedule, &workload, workload.header.threads, buffer,
                                  sizeof buffer / sizeof *buffer);
    while (workload_stream_next(&schedule, &word) && (uint32_t)word < request->threads) {
      uint64_t thread = (uint32_t)word, ops = word >> 32;
      for (size_t index = 0; index < count; index++) {
        if (calls[index].thread == thread && calls[index].op >= done[thread] && calls[index].op < done[thread] + ops)
          positions[index] = position + calls[index].op - done[thread];
      }
      done[thread] += ops;
      position += ops;
    }
    workload_close(&workload);
  }
  free(done);
}

static json_t *slowest_json(const struct run *run, const struct run_request *request, double overhead) {
  struct slow_call *calls = run->result->slowest;
  uint64_t positions[SLOW_CALLS];
  qsort(calls, SLOW_CALLS, sizeof *calls, slower_first);
  size_t count = 0;
  while (count < SLOW_CALLS && calls[count].cycles > 0)
    count++;
  find_positions(request, calls, count, positions);
  json_t *rows = json_array();
  for (size_t index = 0; index < count; index++) {
    json_t *row = json_pack("{s:s, s:o, s:o, s:o, s:o}", "call", call_table[calls[index].call & CALL_ID_MASK].name,
                            "cycles", json_unsigned(net(calls[index].cycles, overhead)), "size_bytes",
                            json_unsigned(calls[index].size_bytes), "thread", json_unsigned(calls[index].thread), "op",
                            json_unsigned(calls[index].op));
    if (positions[index] != UINT64_MAX)
      json_set_count(row, "position", positions[index]);
    json_array_append_new(rows, row);
  }
  return rows;
}

static json_t *preempted_json(const struct replay_result *result, double overhead) {
  if (!result->preemption_known)
    return json_pack("{s:s}", "missing_because", "kernel, libc or valgrind has no restartable sequences");
  const struct replay_preempted *preempted = &result->preempted;
  double cycles = (double)preempted->cycles - (double)preempted->calls * overhead;
  return json_pack("{s:o, s:I, s:o}", "calls", json_unsigned(preempted->calls), "cycles_total",
                   (json_int_t)llround(cycles), "slept", json_unsigned(preempted->slept));
}

/* Estimates the cost of all touching from the timed part. */
static double touch_cycles(const struct replay_touching *touching, double overhead) {
  if (touching->sampled == 0)
    return 0;
  double sampled = (double)touching->cycles - (double)touching->sampled * overhead;
  return sampled * (double)touching->objects / (double)touching->sampled;
}

void report_time(json_t *into, const struct run *run, const struct run_request *request, double engine_cycles_per_op) {
  const struct replay_result *result = run->result;
  double overhead = add_overhead(into, result);
  int64_t total = add_calls(into, result, overhead);
  double touching = touch_cycles(&result->touching, overhead);
  json_object_set_new(into, "touch_cycles", json_integer(llround(touching)));
  json_object_set_new(into, "preempted", preempted_json(result, overhead));
  json_object_set_new(into, "slowest", slowest_json(run, request, overhead));
  if (engine_cycles_per_op >= 0)
    json_object_set_new(into, "stream_cycles_predicted",
                        json_integer(llround((double)total + touching + engine_cycles_per_op * (double)result->ops)));
}

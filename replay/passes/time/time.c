/* SPDX-License-Identifier: MIT */
/* The time pass: cycles of each call, by kind of call and size class. What is kept of a call: timing.h. */
#include "core/workload/workload_read.h"
#include "replay/engine/loop.h"
#include "replay/parent/run.h"
#include "replay/passes/bare.h"
#include "replay/passes/time/timing.h"

#include <math.h>
#include <stdlib.h>

struct time_figures {
  struct empty_calls empty, empty_before; /* among the timed calls; before the first op */
  struct replay_touching touching;
  struct replay_preempted preempted;
  bool preemption_known;
  struct slow_call slowest[SLOW_CALLS];
  struct replay_call calls[TIMED_CALLS][SIZE_CLASSES]; /* by the call recorded */
};

static uint64_t disturb_lines;

static void setup(void) {
  struct time_figures *figures = engine.figures;
  disturb_lines = engine.spec->disturb_lines;
  figures->preemption_known = timing_setup();
  empty_calls_take(&figures->empty_before);
}

static void thread_begins(struct replay_thread *self) {
  timing_begin_thread(self->worker->own, self->number, &engine.completed[self->number]);
}

/* Out of line and without a parameter: the usual path then has one comparison with memory, and no load. */
static __attribute__((noinline)) void disturb_caches(void) {
  disturb(disturb_lines);
}

/* Call before each call of the allocator. */
static inline void timing_arm(struct timing *timing) {
  if (__builtin_expect(timing->until_empty-- == 0, 0))
    timing_take_empty(timing);
  if (__builtin_expect(*timing->switch_word == 0, 0))
    timing_was_off(timing);
  *timing->switch_word = timing_switch_armed;
}

/* Call after it. bytes: of the object that it acquired or released. */
static inline void timing_add(struct timing *timing, uint8_t call, uint64_t bytes, uint64_t cycles) {
  struct replay_call *kept = &timing->calls[call & CALL_ID_MASK][size_class(bytes)];
  if (__builtin_expect(*timing->switch_word == 0, 0) && timing_was_preempted(timing, cycles)) {
    kept->preempted++;
    return;
  }
  kept->count++;
  kept->cycles_total += cycles;
  kept->cycles_max = cycles > kept->cycles_max ? cycles : kept->cycles_max;
  histogram_add(&kept->histogram, cycles);
  if (__builtin_expect(cycles > timing->slow_limit, 0))
    timing_note_slow(timing, call, bytes, cycles);
}

static ALWAYS_INLINE void *call(const struct step *step) {
  uint64_t cycles = 0;
  if (unlikely(disturb_lines > 0))
    disturb_caches();
  timing_arm(step->own);
  void *answer = call_entry(step->dispatch.entry, step->op, true, &cycles);
  timing_add(step->own, step->op->call, step_bytes(step), cycles);
  return answer;
}

/* The touching of some objects is timed, so that the whole can be estimated. */
static ALWAYS_INLINE bool touch_begins(const struct step *step, uint64_t *begin) {
  struct timing *timing = step->own;
  timing->touching.objects++;
  if (__builtin_expect(timing->until_touch-- > 0, 1))
    return false;
  timing->until_touch = TOUCH_EVERY - 1;
  if (*timing->switch_word == 0)
    timing_was_off(timing);
  *timing->switch_word = timing_switch_armed;
  *begin = os_span_begin();
  return true;
}

static ALWAYS_INLINE void touch_ends(const struct step *step, uint64_t begin) {
  struct timing *timing = step->own;
  uint64_t cycles = os_span_end() - begin;
  if (*timing->switch_word == 0)
    return; /* other threads ran, which does not matter for this sample */
  timing->touching.sampled++;
  timing->touching.cycles += cycles;
}

static const struct loop_hooks hooks = {.call = call, .touch_begins = touch_begins, .touch_ends = touch_ends};
PASS_LOOPS(time, hooks, hooks)

static void add_call(struct replay_call *into, const struct replay_call *call) {
  into->preempted += call->preempted;
  if (call->count == 0)
    return;
  into->count += call->count;
  into->cycles_total += call->cycles_total;
  if (call->cycles_max > into->cycles_max)
    into->cycles_max = call->cycles_max;
  histogram_merge(&into->histogram, &call->histogram);
}

static void add_worker(const struct worker *worker) {
  const struct timing *timing = worker->own;
  struct time_figures *result = engine.figures;
  for (int id = 0; id < TIMED_CALLS; id++) {
    for (unsigned class = 0; class < SIZE_CLASSES; class ++)
      add_call(&result->calls[id][class], &timing->calls[id][class]);
  }
  empty_calls_merge(&result->empty, &timing->empty);
  timing_merge_slowest(result->slowest, timing->slowest);
  result->touching.objects += timing->touching.objects;
  result->touching.sampled += timing->touching.sampled;
  result->touching.cycles += timing->touching.cycles;
  result->preempted.calls += timing->preempted.calls;
  result->preempted.cycles += timing->preempted.cycles;
  result->preempted.slept += timing->preempted.slept;
}

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

static uint64_t count_below(const struct histogram *histogram, double cycles) {
  uint64_t count = 0;
  for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS && (double)histogram_lower(bucket) < cycles; bucket++)
    count += histogram->counts[bucket];
  return count;
}

/* Adds "calls", "cycles_total" and "below_overhead"; returns the total. */
static int64_t add_calls(json_t *into, const struct time_figures *result, double overhead) {
  json_t *calls = json_object();
  int64_t total = 0;
  uint64_t below = 0;
  for (int id = 0; id < TIMED_CALLS; id++) {
    struct replay_call all = {0};
    for (unsigned class = 0; class < SIZE_CLASSES; class ++)
      add_call(&all, &result->calls[id][class]);
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

static double add_overhead(json_t *into, const struct time_figures *result) {
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
static void find_positions(const struct run_spec *spec, const struct slow_call *calls, size_t count,
                           uint64_t *positions) {
  struct workload workload;
  struct error ignored = {0};
  for (size_t index = 0; index < count; index++)
    positions[index] = UINT64_MAX;
  uint64_t *done = calloc(spec->threads + 1, sizeof *done);
  if (done && workload_open_fd(&workload, spec->workload_fd, spec->path, &ignored) == 0) {
    struct workload_stream schedule;
    uint64_t buffer[4096], word, position = 0;
    workload_stream_open_buffered(&schedule, &workload, workload.header.threads, buffer,
                                  sizeof buffer / sizeof *buffer);
    while (workload_stream_next(&schedule, &word) && (uint32_t)word < spec->threads) {
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

static json_t *slowest_json(const struct run *run, const struct run_spec *spec, double overhead) {
  struct slow_call *calls = ((struct time_figures *)run->figures)->slowest;
  uint64_t positions[SLOW_CALLS];
  qsort(calls, SLOW_CALLS, sizeof *calls, slower_first);
  size_t count = 0;
  while (count < SLOW_CALLS && calls[count].cycles > 0)
    count++;
  find_positions(spec, calls, count, positions);
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

/* NULL: not known. */
static json_t *preempted_json(const struct time_figures *result, double overhead) {
  if (!result->preemption_known)
    return NULL;
  const struct replay_preempted *preempted = &result->preempted;
  double cycles = (double)preempted->cycles - (double)preempted->calls * overhead;
  return json_pack("{s:o, s:I, s:o}", "calls", json_unsigned(preempted->calls), "cycles_total",
                   (json_int_t)llround(cycles), "slept", json_unsigned(preempted->slept));
}

static double touch_cycles(const struct replay_touching *touching, double overhead) {
  if (touching->sampled == 0)
    return 0;
  double sampled = (double)touching->cycles - (double)touching->sampled * overhead;
  return sampled * (double)touching->objects / (double)touching->sampled;
}

static void report(json_t *into, const struct run *run) {
  const struct time_figures *result = run->figures;
  double overhead = add_overhead(into, result), engine_cycles = report_engine_cycles(run);
  int64_t total = add_calls(into, result, overhead);
  double touching = touch_cycles(&result->touching, overhead);
  json_object_set_new(into, "touch_cycles", json_integer(llround(touching)));
  if (json_object_set_new(into, "preempted", preempted_json(result, overhead)) != 0)
    json_object_set_new(into, "preempted_missing_because",
                        json_string("kernel, libc or valgrind has no restartable sequences"));
  json_object_set_new(into, "slowest", slowest_json(run, run->spec, overhead));
  if (engine_cycles >= 0)
    json_object_set_new(into, "stream_cycles_predicted",
                        json_integer(llround((double)total + touching + engine_cycles * (double)run->result->ops)));
}

static uint64_t counted(const struct run *run) {
  const struct time_figures *result = run->figures;
  uint64_t counted = 0;
  for (int id = 0; id < TIMED_CALLS; id++)
    for (unsigned class = 0; class < SIZE_CLASSES; class ++)
      counted += result->calls[id][class].cycles_total + result->calls[id][class].preempted;
  return counted;
}

static const struct pass pass_time = {
    .turn = 20,
    .name = "time",
    .summary = "cycles per call, by kind of call and size",
    .order = ORDER_WINDOW,
    .repeats = REPEATED,
    .by_default = true,
    .takes = TAKES_DISTURB | TAKES_WARM,
    .loops = {time_freely, time_by_turns},
    .worker_bytes = sizeof(struct timing),
    .figures_bytes = sizeof(struct time_figures),
    .setup = setup,
    .thread_begins = thread_begins,
    .add_worker = add_worker,
    .launch = bare_launch_with_engine_cost,
    .report = report,
    .counts = "cycles",
    .counted = counted,
};
REGISTER_PASS(pass_time);

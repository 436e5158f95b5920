/* SPDX-License-Identifier: MIT */
#include "replay/parent/report.h"

#include "core/sharing/line_sharing.h"
#include "core/trace/summary.h"
#include "replay/calls/touch.h"
#include "replay/parent/names.h"
#include "replay/parent/report_json.h"
#include "replay/passes/blame/blame_json.h"
#include "replay/passes/contention/contention_json.h"
#include "replay/passes/instructions_json.h"
#include "replay/passes/memory_json.h"
#include "replay/passes/misses_json.h"
#include "replay/passes/pmu_json.h"
#include "replay/passes/time/time_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void add_allocator_stats(json_t *into, const struct allocator_stats *stats) {
  if (stats->count == 0)
    return;
  json_t *counts = json_object();
  for (uint32_t index = 0; index < stats->count; index++)
    json_set_count(counts, stats->stats[index].name, stats->stats[index].value);
  json_object_set_new(into, "reference_stats", counts);
}

/* Writes the order as the option takes it. */
static void order_text(const struct run_request *request, char *text, size_t bytes) {
  const char *name = order_name(request->order);
  if (request->order == ORDER_WINDOW)
    snprintf(text, bytes, "%s=%" PRIu64, name, request->window);
  else if (request->order == ORDER_RANDOM)
    snprintf(text, bytes, "%s=%" PRIu64, name, request->seed);
  else if (request->order == ORDER_PACED)
    snprintf(text, bytes, "%s=%g", name, request->speed);
  else
    snprintf(text, bytes, "%s", name);
}

static int longer_first(const void *left, const void *right) {
  const struct replay_waits *a = left, *b = right;
  return a->cycles > b->cycles ? -1 : a->cycles < b->cycles;
}

/* The threads' waits: in total, and of those that waited longest. share: of the cycles from a thread's first word to
   its last. */
static json_t *waits_json(struct replay_result *result) {
  json_t *threads = json_array();
  qsort(result->most_waits, WAITS_KEPT, sizeof *result->most_waits, longer_first);
  for (int index = 0; index < WAITS_KEPT && result->most_waits[index].cycles > 0; index++) {
    const struct replay_waits *waits = &result->most_waits[index];
    json_array_append_new(threads, json_pack("{s:o, s:o, s:o, s:f}", "thread", json_unsigned(waits->thread), "count",
                                             json_unsigned(waits->count), "cycles", json_unsigned(waits->cycles),
                                             "share", (double)waits->cycles / (double)waits->life_cycles));
  }
  double life_cycles = result->life_cycles ? (double)result->life_cycles : 1;
  return json_pack("{s:o, s:o, s:f, s:o}", "count", json_unsigned(result->waits), "cycles",
                   json_unsigned(result->wait_cycles), "share", (double)result->wait_cycles / life_cycles, "threads",
                   threads);
}

static json_t *pace_json(const struct replay_pace *pace) {
  return json_pack("{s:o, s:o, s:f, s:o}", "times", json_unsigned(pace->times), "sleeps", json_unsigned(pace->sleeps),
                   "late_mean_ns", pace->times ? (double)pace->late_ns / (double)pace->times : 0.0, "late_max_ns",
                   json_unsigned(pace->late_max_ns));
}

json_t *report_run(const struct run *run, const struct run_request *request, const struct baseline *baseline,
                   double engine_cycles_per_op) {
  struct replay_result *result = run->result;
  char order[48];
  order_text(request, order, sizeof order);
  char touch[48];
  bool bounded = result->setup.touch <= TOUCH_LINES && result->setup.touch_bound_bytes != TOUCH_BOUND_BYTES;
  snprintf(touch, sizeof touch, bounded ? "%s=%" PRIu64 : "%s", touch_name(result->setup.touch),
           result->setup.touch_bound_bytes);
  json_t *out = json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:f, s:o, s:o, s:o, s:o}", "pass", pass_name(request->pass),
                          "order", order, "touch", touch, "ops", json_unsigned(result->ops), "threads",
                          json_unsigned(result->thread_count), "wall_ns", json_unsigned(result->wall_ns), "cycles_hz",
                          run_cycles_hz(), "failed_calls", json_unsigned(result->failed_calls), "skipped_ops",
                          json_unsigned(result->skipped), "waits", waits_json(run->result), "folded_calls",
                          call_counts_json(result->substituted));
  if (request->order == ORDER_PACED)
    json_object_set_new(out, "pace", pace_json(&result->pace));
  if (request->as_malloc)
    json_object_set_new(out, "as_malloc", json_true());
  if (request->threads_to_cores)
    json_object_set_new(out, "threads_to_cores", json_true());
  if (request->null_allocator)
    json_object_set_new(out, "null_allocator", json_true());
  if (request->op_limit)
    json_set_count(out, "op_limit", request->op_limit);
  json_object_set_new(out, "clock", json_string(result->clock_recorded ? "recorded" : "real"));
  if (request->pass == PASS_TIME && request->disturb_lines > 0)
    json_set_count(out, "disturb_lines", request->disturb_lines);
  json_object_set_new(out, "aslr", json_boolean(result->aslr));
  if (engine_cycles_per_op >= 0)
    json_object_set_new(out, "engine_cycles_per_op", json_real(engine_cycles_per_op));
  add_allocator_stats(out, &result->allocator_stats);
  switch (request->pass) {
  case PASS_TIME:
    report_time(out, run, request, engine_cycles_per_op);
    break;
  case PASS_BARE:
    report_pmu(out, result);
    /* Of whole streams, without waits and counter reads. */
    json_set_count(out, "cycles_total", (uint64_t)((double)result->cpu_ns * run_cycles_hz() / 1e9));
    json_set_count(out, "cpu_ns", result->cpu_ns);
    break;
  case PASS_MEMORY:
    report_memory(out, run, baseline);
    break;
  case PASS_BLAME:
    report_memory(out, run, baseline);
    json_object_set_new(out, "blame", report_blame(result, baseline, request->origin_names));
    break;
  case PASS_INSTRUCTIONS:
    report_instructions(out, run);
    break;
  case PASS_MISSES:
    report_misses(out, run);
    break;
  case PASS_CONTENTION:
    json_object_set_new(out, "contention", report_contention(run));
    break;
  case PASS_SHARING:
    json_object_set_new(out, "line_sharing", line_sharing_json(&result->sharing));
    break;
  case PASS_VERIFY:
    json_object_set_new(out, "verified",
                        json_pack("{s:o, s:o, s:o, s:o}", "objects", json_unsigned(result->verified_objects), "bytes",
                                  json_unsigned(result->verified_bytes), "partly_stamped_objects",
                                  json_unsigned(result->verified_partly), "live_objects_at_end",
                                  json_unsigned(result->verified_at_end)));
    break;
  }
  return out;
}

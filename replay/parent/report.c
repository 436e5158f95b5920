/* SPDX-License-Identifier: MIT */
#include "replay/parent/report.h"

#include "core/trace/summary.h"
#include "replay/parent/spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

static void add_allocator_stats(json_t *into, const struct allocator_stats *stats) {
  if (stats->count == 0)
    return;
  json_t *counts = json_object();
  for (uint32_t index = 0; index < stats->count; index++)
    json_set_count(counts, stats->stats[index].name, stats->stats[index].value);
  json_object_set_new(into, "reference_stats", counts);
}

/* Writes the order as the option takes it. */
static void order_text(const struct run_spec *spec, char *text, size_t bytes) {
  const char *name = order_names[spec->order];
  if (spec->order == ORDER_WINDOW)
    snprintf(text, bytes, "%s=%" PRIu64, name, spec->window);
  else if (spec->order == ORDER_RANDOM)
    snprintf(text, bytes, "%s=%" PRIu64, name, spec->seed);
  else if (spec->order == ORDER_PACED)
    snprintf(text, bytes, "%s=%g", name, spec->speed);
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

json_t *report_run(const struct run *run) {
  const struct run_spec *spec = run->spec;
  struct replay_result *result = run->result;
  char order[48], touch[48];
  order_text(spec, order, sizeof order);
  bool bounded = result->spec.touch <= TOUCH_LINES && result->spec.touch_bound_bytes != TOUCH_BOUND_BYTES;
  snprintf(touch, sizeof touch, bounded ? "%s=%" PRIu64 : "%s", touch_names[result->spec.touch],
           result->spec.touch_bound_bytes);
  if (spec->baseline_only) {
    json_t *baseline = json_object();
    spec->pass->report(baseline, run);
    return baseline;
  }
  double engine_cycles = report_engine_cycles(run);
  json_t *out =
      json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:f, s:o, s:o, s:o, s:o}", "pass", spec->pass->name, "order", order,
                "touch", touch, "ops", json_unsigned(result->ops), "threads", json_unsigned(result->thread_count),
                "wall_ns", json_unsigned(result->wall_ns), "cycles_hz", run_cycles_hz(), "failed_calls",
                json_unsigned(result->failed_calls), "skipped_ops", json_unsigned(result->skipped), "waits",
                waits_json(result), "folded_calls", call_counts_json(result->substituted));
  if (spec->order == ORDER_PACED)
    json_object_set_new(out, "pace", pace_json(&result->pace));
  if (spec->as_malloc)
    json_object_set_new(out, "as_malloc", json_true());
  if (spec->threads_to_cores)
    json_object_set_new(out, "threads_to_cores", json_true());
  if (spec->null_allocator)
    json_object_set_new(out, "null_allocator", json_true());
  if (spec->op_limit)
    json_set_count(out, "op_limit", spec->op_limit);
  json_object_set_new(out, "clock",
                      json_string(!result->clock_follows ? "real"
                                  : result->clock_steps  ? "steps"
                                                         : "recorded"));
  if (spec->disturb_lines > 0)
    json_set_count(out, "disturb_lines", spec->disturb_lines);
  json_object_set_new(out, "aslr", json_boolean(result->aslr));
  if (engine_cycles >= 0)
    json_object_set_new(out, "engine_cycles_per_op", json_real(engine_cycles));
  add_allocator_stats(out, &result->allocator_stats);
  spec->pass->report(out, run);
  return out;
}

double report_engine_cycles(const struct run *run) {
  return run->engine_ns_per_op < 0 ? run->spec->engine_cycles_per_op : run->engine_ns_per_op * run_cycles_hz() / 1e9;
}

static char *base64(const uint8_t *bytes, size_t count) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char *text = malloc((count + 2) / 3 * 4 + 1), *at = text;
  if (!text)
    return NULL;
  for (size_t index = 0; index < count; index += 3) {
    size_t left = count - index;
    uint32_t group = (uint32_t)bytes[index] << 16;
    group |= left > 1 ? (uint32_t)bytes[index + 1] << 8 : 0;
    group |= left > 2 ? bytes[index + 2] : 0;
    *at++ = digits[group >> 18];
    *at++ = digits[group >> 12 & 63];
    *at++ = left > 1 ? digits[group >> 6 & 63] : '=';
    *at++ = left > 2 ? digits[group & 63] : '=';
  }
  *at = '\0';
  return text;
}

char *report_packed(const void *bytes, size_t count) {
  uLongf packed_bytes = compressBound(count);
  uint8_t *packed = malloc(packed_bytes);
  char *text = NULL;
  if (packed && compress2(packed, &packed_bytes, bytes, count, 6) == Z_OK)
    text = base64(packed, packed_bytes);
  free(packed);
  return text;
}

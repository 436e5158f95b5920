/* SPDX-License-Identifier: MIT */
#include "convert/compile/info.h"

#include "core/base/json.h"
#include "core/trace/access_stream.h"
#include "core/trace/layout.h"

#include <math.h>
#include <stdlib.h>

void compile_info_free(struct compile_info *info) {
  if (!info)
    return;
  trace_info_free(&info->trace);
  free(info);
}

struct compile_info *compile_info_new(struct trace_reader *reader, struct error *error) {
  struct compile_info *info = calloc(1, sizeof *info);
  if (!info) {
    error_set(error, trace_reader_path(reader), "out of memory");
    return NULL;
  }
  const struct trace_summary *summary = trace_reader_summary(reader);
  info->reader = reader;
  info->time_line.interval = summary->events / TIME_LINE_POINTS + 1;
  trace_info_read(&info->trace, summary->info_json);
  if (recorded_samples_load(&info->samples, reader, error) != 0) {
    compile_info_free(info);
    return NULL;
  }
  return info;
}

const struct workload_time_point *compile_info_time_line(struct compile_info *info, const struct witness *witness,
                                                         size_t *count) {
  if (info->samples.seen > 0 && info->samples.last.stamp > info->stamp) /* the program may idle to its end */
    info->stamp = info->samples.last.stamp;
  const struct workload_time_point end = {witness->ops, compile_info_time_ns(info), witness->live_bytes_at_end,
                                          witness->live_at_end};
  recorded_samples_advance(&info->samples, UINT64_MAX, witness->ops);
  return time_line_finish(&info->time_line, &end, count);
}

static void set_string(json_t *object, const char *key, const char *value) {
  if (value[0])
    json_object_set_new(object, key, json_string(value));
}

/* As core/workload/WORKLOAD.md has it. */
static json_t *program_clock_json(const struct program_clock *clock, const struct trace_summary *summary) {
  json_t *points = json_array();
  for (uint32_t i = 0; i < clock->count; i++)
    json_array_append_new(points,
                          json_pack("[I,I,I]", (json_int_t)trace_stamp_ns(summary, clock->points[i].stamp),
                                    (json_int_t)clock->points[i].taken_ns, (json_int_t)clock->points[i].asleep_ns));
  return points;
}

static json_t *accesses_json(const struct compile_info *info) {
  const struct trace_summary *summary = trace_reader_summary(info->reader);
  const struct trace_access_totals *totals = &summary->accesses;
  json_t *object = json_object();
  json_set_count(object, "granule_bytes", ACCESS_GRANULE_BYTES);
  json_set_count(object, "filter_bytes", summary->access_filter_bytes);
  for (int total = 0; total < ACCESS_TOTAL_LIMIT; total++)
    if (totals->known[total])
      json_set_count(object, access_total_names[total], totals->counted[total]);
  if (totals->in_bursts)
    json_set_count(object, "bursts", (totals->switches + 1) / 2);
  if (totals->lost)
    json_set_count(object, "lost_in_trace", totals->lost);
  return object;
}

char *compile_info_json(struct compile_info *info, const struct witness *witness) {
  static const char *const kept[] = {"linked",    "allocator_version", "allocator_build_id",     "settings",
                                     "libraries", "touched_parts",     "transparent_huge_pages", "quota_processors"};
  json_t *object = json_object(), *more;
  const char *key_of_added;
  const struct trace_info *trace = &info->trace;
  const struct recorded_samples *samples = &info->samples;
  set_string(object, "name", trace->program);
  set_string(object, "program", trace->program);
  set_string(object, "source", trace->source);
  set_string(object, "allocator", trace->allocator);
  json_set_count(object, "os_page_bytes", trace->os_page_bytes);
  json_object_set(object, "lacks", trace->lacks);
  for (size_t key = 0; key < sizeof kept / sizeof *kept; key++)
    json_object_set(object, kept[key], json_object_get(trace->json, kept[key]));
  json_object_set_new(object, "calls", call_counts_json(info->calls));
  json_object_set_new(object, "witness", witness_json(witness));
  json_object_set_new(object, "request_sizes", size_histogram_json(&info->sizes));
  json_set_count(object, "touched_estimated_bytes", info->estimated_bytes);
  json_object_set_new(object, "recorded", recorded_samples_json(samples));
  if (samples->user_ns != TRACE_SAMPLE_MISSING && samples->system_ns != TRACE_SAMPLE_MISSING)
    json_set_count(object, "cpu_ns", samples->user_ns + samples->system_ns - samples->cpu_before_ns);
  const struct program_clock *clock = &samples->clock;
  double asleep = program_clock_asleep(clock);
  if (!isnan(asleep))
    json_object_set_new(object, "asleep", json_real(asleep));
  if (samples->throttled_ns)
    json_set_count(object, "throttled_ns", samples->throttled_ns);
  if (clock->count)
    json_object_set_new(object, "program_clock", program_clock_json(clock, trace_reader_summary(info->reader)));
  if (trace_reader_summary(info->reader)->accesses.recorded)
    json_object_set_new(object, "accesses", accesses_json(info));
  json_object_foreach(info->added, key_of_added, more)
    json_object_update(json_object_get(object, key_of_added), more);
  if (info->rewritten)
    json_object_update(object, info->rewritten);
  char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(12));
  json_decref(object);
  return text;
}

/* SPDX-License-Identifier: MIT */
#include "convert/history/trace_info.h"

#include <stdlib.h>
#include <string.h>

static const char *string_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

void trace_info_read(struct trace_info *info, const char *info_json) {
  *info = (struct trace_info){.json = json_loads(info_json, 0, NULL), .os_page_bytes = 4096};
  info->order = string_of(info->json, "order");
  info->clock_kind = string_of(json_object_get(info->json, "clock"), "kind");
  info->program = string_of(info->json, "program");
  info->source = string_of(info->json, "source");
  info->allocator = string_of(info->json, "allocator");
  json_t *lacks = json_object_get(info->json, "lacks"), *item;
  info->lacks = json_is_array(lacks) ? lacks : NULL;
  json_t *before = json_object_get(info->json, "set_before");
  info->set_before = json_is_array(before) ? before : NULL;
  size_t i;
  json_array_foreach(lacks, i, item) {
    const char *word = json_is_string(item) ? json_string_value(item) : "";
    info->lacks_start |= strcmp(word, "start") == 0;
    info->lacks_in_flight |= strcmp(word, "in_flight") == 0;
    info->lacks_calls |= strcmp(word, "calls") == 0;
    info->lacks_addresses |= strcmp(word, "addresses") == 0;
  }
  json_int_t os_page_bytes = json_integer_value(json_object_get(info->json, "os_page_bytes"));
  if (os_page_bytes >= 512 && os_page_bytes <= 1 << 30 && (os_page_bytes & (os_page_bytes - 1)) == 0)
    info->os_page_bytes = (uint64_t)os_page_bytes;
}

void trace_info_free(struct trace_info *info) {
  json_decref(info->json);
}

static bool higher(uint64_t candidate, uint64_t than) {
  return candidate != TRACE_SAMPLE_MISSING && (than == TRACE_SAMPLE_MISSING || candidate > than);
}

static void raise_to(uint64_t *peak, uint64_t value) {
  if (higher(value, *peak))
    *peak = value;
}

/* Joins rows in pairs. */
static void thin_out(struct recorded_samples *samples) {
  for (uint32_t i = 0; i < RECORDED_SAMPLES_MAX / 2; i++) {
    const struct recorded_sample *a = &samples->rows[2 * i], *b = a + 1;
    samples->rows[i] = higher(b->rss_anon_bytes, a->rss_anon_bytes) ? *b : *a;
  }
  samples->count = RECORDED_SAMPLES_MAX / 2;
  samples->group_size *= 2;
  samples->group = samples->group_size;
}

static int take_sample(void *context, const struct trace_sample *sample) {
  struct recorded_samples *samples = context;
  uint64_t rss_anon_bytes = trace_sample_anon_peak(samples->seen ? &samples->last : NULL, sample);
  if (samples->seen == 0 && sample->user_ns != TRACE_SAMPLE_MISSING && sample->system_ns != TRACE_SAMPLE_MISSING)
    samples->cpu_before_ns = sample->user_ns + sample->system_ns;
  program_clock_sample(&samples->clock, sample);
  if (samples->seen && sample->throttled_ns != TRACE_SAMPLE_MISSING)
    samples->throttled_ns += sample->throttled_ns - samples->last.throttled_ns;
  samples->seen++;
  samples->last = *sample;
  raise_to(&samples->rss_anon_peak_bytes, rss_anon_bytes);
  raise_to(&samples->vm_size_peak_bytes, sample->vm_size_bytes);
  raise_to(&samples->vm_hwm_bytes, sample->vm_hwm_bytes);
  raise_to(&samples->minor_faults, sample->minor_faults);
  raise_to(&samples->major_faults, sample->major_faults);
  raise_to(&samples->user_ns, sample->user_ns);
  raise_to(&samples->system_ns, sample->system_ns);
  struct recorded_sample row = {sample->stamp, 0, rss_anon_bytes, sample->vm_size_bytes};
  if (samples->count && samples->group < samples->group_size) {
    struct recorded_sample *last = &samples->rows[samples->count - 1];
    samples->group++;
    if (higher(row.rss_anon_bytes, last->rss_anon_bytes))
      *last = row;
    return 0;
  }
  if (samples->count == RECORDED_SAMPLES_MAX)
    thin_out(samples);
  samples->rows[samples->count++] = row;
  samples->group = 1;
  return 0;
}

/* A peak after the last sample, from the kernel's accounting at the process's end. */
static void take_final(struct recorded_samples *samples, const char *footer_json) {
  json_t *footer = json_loads(footer_json, 0, NULL);
  json_int_t peak = json_integer_value(json_object_get(json_object_get(footer, "final"), "peak_rss_bytes"));
  struct trace_sample end = samples->last;
  json_decref(footer);
  if (peak <= 0 || !samples->count)
    return;
  end.vm_hwm_bytes = (uint64_t)peak;
  uint64_t rss_anon_bytes = trace_sample_anon_peak(&samples->last, &end);
  raise_to(&samples->rss_anon_peak_bytes, rss_anon_bytes);
  raise_to(&samples->vm_hwm_bytes, end.vm_hwm_bytes);
  raise_to(&samples->rows[samples->count - 1].rss_anon_bytes, rss_anon_bytes);
}

int recorded_samples_load(struct recorded_samples *samples, struct trace_reader *reader, struct error *error) {
  memset(samples, 0, sizeof *samples);
  samples->group_size = 1;
  json_t *info = json_loads(trace_reader_summary(reader)->info_json, 0, NULL);
  program_clock_begin(&samples->clock, trace_reader_summary(reader)->clock_hz,
                      json_number_value(json_object_get(info, "call_ns")),
                      json_number_value(json_object_get(info, "processors")));
  json_decref(info);
  samples->rss_anon_peak_bytes = samples->vm_size_peak_bytes = samples->vm_hwm_bytes = TRACE_SAMPLE_MISSING;
  samples->minor_faults = samples->major_faults = samples->user_ns = samples->system_ns = TRACE_SAMPLE_MISSING;
  int result = trace_reader_samples(reader, take_sample, samples, error);
  if (result == 0)
    take_final(samples, trace_reader_summary(reader)->footer_json);
  return result;
}

void recorded_samples_place(struct recorded_samples *samples, uint64_t stamp, uint64_t position) {
  while (samples->placed < samples->count && samples->rows[samples->placed].stamp <= stamp)
    samples->rows[samples->placed++].position = position;
  samples->next_stamp = samples->placed < samples->count ? samples->rows[samples->placed].stamp : UINT64_MAX;
}

static json_t *value(uint64_t bytes) {
  return bytes == TRACE_SAMPLE_MISSING ? json_null() : json_integer((json_int_t)bytes);
}

json_t *recorded_samples_json(const struct recorded_samples *samples) {
  json_t *rows = json_array();
  for (uint32_t i = 0; i < samples->count; i++) {
    const struct recorded_sample *row = &samples->rows[i];
    json_array_append_new(
        rows, json_pack("[I,o,o]", (json_int_t)row->position, value(row->rss_anon_bytes), value(row->vm_size_bytes)));
  }
  return rows;
}

static int take_mark(void *context, const struct trace_mark *mark) {
  struct recorded_marks *marks = context;
  struct recorded_mark *copy = vector_add(&marks->list);
  if (!copy)
    return 1;
  *copy = (struct recorded_mark){
      .stamp = mark->stamp, .events = mark->events, .thread = mark->thread, .text = strdup(mark->text)};
  return copy->text ? 0 : 1;
}

/* Keeps the order within a thread, since the stamps of its marks rise. */
static int by_stamp(const void *left, const void *right) {
  const struct recorded_mark *a = left, *b = right;
  return COMPARE(a->stamp, b->stamp) ?: COMPARE(a->thread, b->thread) ?: COMPARE(a->events, b->events);
}

int recorded_marks_load(struct recorded_marks *marks, struct trace_reader *reader, struct error *error) {
  *marks = (struct recorded_marks){.threads = trace_reader_summary(reader)->threads};
  int result = trace_reader_marks(reader, take_mark, marks, error);
  if (result < 0 || (result == 0 && marks->list.count == 0))
    return result;
  marks->events = calloc(marks->threads + 1, sizeof *marks->events);
  marks->next = calloc(marks->threads + 1, sizeof *marks->next);
  if (result > 0 || !marks->events || !marks->next)
    return error_set(error, trace_reader_path(reader), "out of memory");
  vector_sort(&marks->list, by_stamp);
  return 0;
}

void recorded_marks_free(struct recorded_marks *marks) {
  for (size_t i = 0; i < marks->list.count; i++)
    free(marks->list.at[i].text);
  free(marks->list.at);
  free(marks->events);
  free(marks->next);
  *marks = (struct recorded_marks){0};
}

void recorded_marks_rewind(struct recorded_marks *marks, const uint64_t *passed) {
  marks->next_by_stamp = 0;
  for (size_t i = 0; i < marks->list.count; i++)
    marks->list.at[i].passed = false;
  for (uint32_t thread = 0; marks->events && thread < marks->threads; thread++) {
    marks->events[thread] = passed ? passed[thread] : 0;
    marks->next[thread] = 0;
  }
}

struct recorded_mark *recorded_marks_before(struct recorded_marks *marks, uint32_t thread, uint64_t stamp) {
  struct recorded_mark *mark;
  while (marks->next_by_stamp < marks->list.count && (mark = &marks->list.at[marks->next_by_stamp])->stamp <= stamp) {
    marks->next_by_stamp++;
    if (!mark->passed) {
      mark->passed = true;
      return mark;
    }
  }
  if (!marks->events || thread >= marks->threads)
    return NULL;
  /* Each thread passes the list once, up to its first pending mark. */
  for (size_t *next = &marks->next[thread]; *next < marks->list.count; ++*next) {
    mark = &marks->list.at[*next];
    if (mark->thread != thread || mark->passed)
      continue;
    if (mark->events > marks->events[thread])
      break;
    mark->passed = true;
    return mark;
  }
  return NULL;
}

void recorded_marks_after_event(struct recorded_marks *marks, uint32_t thread) {
  if (marks->events && thread < marks->threads)
    marks->events[thread]++;
}

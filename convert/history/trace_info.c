/* SPDX-License-Identifier: MIT */
#include "convert/history/trace_info.h"

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
  size_t i;
  json_array_foreach(lacks, i, item) {
    const char *word = json_is_string(item) ? json_string_value(item) : "";
    info->lacks_start |= strcmp(word, "start") == 0;
    info->lacks_in_flight |= strcmp(word, "in_flight") == 0;
    info->lacks_calls |= strcmp(word, "calls") == 0;
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
  samples->seen++;
  raise_to(&samples->rss_anon_peak_bytes, sample->rss_anon_bytes);
  raise_to(&samples->vm_size_peak_bytes, sample->vm_size_bytes);
  raise_to(&samples->vm_hwm_bytes, sample->vm_hwm_bytes);
  raise_to(&samples->minor_faults, sample->minor_faults);
  raise_to(&samples->major_faults, sample->major_faults);
  raise_to(&samples->user_ns, sample->user_ns);
  raise_to(&samples->system_ns, sample->system_ns);
  struct recorded_sample row = {sample->stamp, 0, sample->rss_anon_bytes, sample->vm_size_bytes};
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

int recorded_samples_load(struct recorded_samples *samples, struct trace_reader *reader, struct error *error) {
  memset(samples, 0, sizeof *samples);
  samples->group_size = 1;
  samples->rss_anon_peak_bytes = samples->vm_size_peak_bytes = samples->vm_hwm_bytes = TRACE_SAMPLE_MISSING;
  samples->minor_faults = samples->major_faults = samples->user_ns = samples->system_ns = TRACE_SAMPLE_MISSING;
  return trace_reader_samples(reader, take_sample, samples, error);
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

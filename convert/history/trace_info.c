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

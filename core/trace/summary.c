/* SPDX-License-Identifier: MIT */
#include "core/trace/summary.h"

#include "core/base/json.h"
#include "core/trace/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool copy_text(const char **to, const char *text) {
  *to = text ? strdup(text) : NULL;
  return *to || !text;
}

bool trace_module_copy(struct trace_module *to, const struct trace_module *from) {
  *to = *from;
  bool name = copy_text(&to->name, from->name), path = copy_text(&to->path, from->path);
  return copy_text(&to->build_id, from->build_id) && name && path;
}

void trace_module_free_texts(struct trace_module *module) {
  free((char *)module->name);
  free((char *)module->path);
  free((char *)module->build_id);
}

const char *const access_total_names[ACCESS_TOTAL_LIMIT] = {
    [ACCESS_TOTAL_PROGRAM_INSTRUCTIONS] = "program_instructions",
    [ACCESS_TOTAL_ALLOCATOR_INSTRUCTIONS] = "allocator_instructions",
    [ACCESS_TOTAL_PROGRAM_ACCESSES] = "program_accesses",
    [ACCESS_TOTAL_SYSCALLS] = "program_syscalls",
    [ACCESS_TOTAL_OUTSIDE_PROGRAM_INSTRUCTIONS] = "outside_program_instructions",
    [ACCESS_TOTAL_OUTSIDE_ALLOCATOR_INSTRUCTIONS] = "outside_allocator_instructions",
    [ACCESS_TOTAL_OUTSIDE_SYSCALLS] = "outside_program_syscalls",
    [ACCESS_TOTAL_STRING_INSTRUCTIONS] = "program_string_instructions",
    [ACCESS_TOTAL_STRING_BYTES] = "program_string_bytes",
};

json_t *call_counts_json(const uint64_t counts[CALL_LIMIT]) {
  json_t *calls = json_object();
  for (int id = 0; id < CALL_LIMIT; id++)
    if (counts[id])
      json_set_count(calls, call_table[id].name, counts[id]);
  return calls;
}

uint64_t trace_sample_anon_peak(const struct trace_sample *before, const struct trace_sample *sample) {
  uint64_t peak = sample->rss_anon_bytes;
  if (!before || peak == TRACE_SAMPLE_MISSING || before->rss_anon_bytes == TRACE_SAMPLE_MISSING ||
      before->vm_hwm_bytes == TRACE_SAMPLE_MISSING || sample->vm_hwm_bytes == TRACE_SAMPLE_MISSING ||
      sample->vm_hwm_bytes <= before->vm_hwm_bytes)
    return peak;
  uint64_t earlier = before->rss_file_bytes + before->rss_shmem_bytes;
  uint64_t later = sample->rss_file_bytes + sample->rss_shmem_bytes, fewer = earlier < later ? earlier : later;
  if (sample->vm_hwm_bytes <= peak + later || sample->vm_hwm_bytes - fewer <= peak)
    return peak;
  return sample->vm_hwm_bytes - fewer;
}

const char *memory_unexplained_text(char *to, double peak_live_bytes, double peak_memory_bytes, const char *program) {
  enum { LEAST_BYTES = 4 << 20 }; /* less is the C library's and the program's data */
  bool python = strncmp(program, "python", 6) == 0;
  *to = '\0';
  if (peak_memory_bytes - peak_live_bytes >= LEAST_BYTES && peak_live_bytes < peak_memory_bytes / 2)
    snprintf(
        to, MEMORY_UNEXPLAINED_BYTES,
        "Live bytes peak at %.0f %% of the program's peak memory: the rest is retained by the allocator, or bypasses "
        "malloc; heaptape replay tells which.%s",
        100 * peak_live_bytes / peak_memory_bytes, python ? " For CPython record with PYTHONMALLOC=malloc." : "");
  return to;
}

/* SPDX-License-Identifier: MIT */
#include "replay/passes/instructions_json.h"

#include "replay/parent/report_json.h"

#include <stdio.h>

json_t *window_positions_json(const struct window_edges *edges) {
  json_t *positions = json_array();
  for (uint32_t edge = 0; edge < edges->count; edge++)
    json_array_append_new(positions, json_unsigned(edges->positions[edge]));
  return positions;
}

/* Counts between each two edges, for the kinds of calls that the run made. */
static json_t *windows_json(const struct run *run, const struct window_edges *edges) {
  json_t *calls = json_object(), *instructions = json_object();
  for (int id = 0; id < CALL_LIMIT; id++) {
    if (run->result->call_counts[id] == 0)
      continue;
    json_t *counts = json_array(), *totals = json_array();
    for (uint32_t window = 0; window + 1 < edges->count; window++) {
      json_array_append_new(counts, json_unsigned(run->instructions.windows[window].calls[id]));
      json_array_append_new(totals, json_unsigned(run->instructions.windows[window].instructions[id]));
    }
    json_object_set_new(calls, call_table[id].name, counts);
    json_object_set_new(instructions, call_table[id].name, totals);
  }
  return json_pack("{s:o, s:o, s:o}", "positions", window_positions_json(edges), "calls", calls, "instructions",
                   instructions);
}

/* Sets the keys "string_instructions" and "string_bytes", each behind the prefix. */
static void set_strings(json_t *into, const char *prefix, const struct executed_count *executed) {
  char key[64];
  snprintf(key, sizeof key, "%sstring_instructions", prefix);
  json_set_count(into, key, executed->strings);
  snprintf(key, sizeof key, "%sstring_bytes", prefix);
  json_set_count(into, key, executed->string_bytes);
}

/* Instructions are the allocator's only, as counted under Valgrind; numbers of calls are counted by the engine. */
void report_instructions(json_t *into, const struct run *run) {
  json_t *calls = json_object();
  struct executed_count total = {0};
  for (int id = 0; id < CALL_LIMIT; id++) {
    uint64_t count = run->result->call_counts[id];
    const struct executed_count *executed = &run->instructions.calls[id];
    if (count == 0)
      continue;
    json_t *call = json_pack("{s:o, s:o, s:f}", "count", json_unsigned(count), "instructions_total",
                             json_unsigned(executed->instructions), "instructions_mean",
                             (double)executed->instructions / (double)count);
    set_strings(call, "", executed);
    json_object_set_new(calls, call_table[id].name, call);
    total.instructions += executed->instructions;
    total.strings += executed->strings;
    total.string_bytes += executed->string_bytes;
  }
  json_object_set_new(into, "calls", calls);
  json_set_count(into, "instructions_total", total.instructions);
  set_strings(into, "", &total);
  if (run->instructions.windows)
    json_object_set_new(into, "windows", windows_json(run, &run->result->setup.edges));
  json_set_count(into, "startup_instructions", run->instructions.startup.instructions);
  json_set_count(into, "startup_process_instructions", run->instructions.startup_process.instructions);
  set_strings(into, "startup_process_", &run->instructions.startup_process);
}

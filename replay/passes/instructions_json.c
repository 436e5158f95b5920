/* SPDX-License-Identifier: MIT */
#include "replay/passes/instructions_json.h"

#include "replay/parent/report_json.h"

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

/* Instructions are the allocator's only, as counted under Valgrind; numbers of calls are counted by the engine. */
void report_instructions(json_t *into, const struct run *run) {
  json_t *calls = json_object();
  uint64_t total = 0;
  for (int id = 0; id < CALL_LIMIT; id++) {
    uint64_t count = run->result->call_counts[id], instructions = run->instructions.calls[id];
    if (count == 0)
      continue;
    json_object_set_new(calls, call_table[id].name,
                        json_pack("{s:o, s:o, s:f}", "count", json_unsigned(count), "instructions_total",
                                  json_unsigned(instructions), "instructions_mean",
                                  (double)instructions / (double)count));
    total += instructions;
  }
  json_object_set_new(into, "calls", calls);
  json_set_count(into, "instructions_total", total);
  if (run->instructions.windows)
    json_object_set_new(into, "windows", windows_json(run, &run->result->setup.edges));
  json_set_count(into, "startup_instructions", run->instructions.startup);
  json_set_count(into, "startup_process_instructions", run->instructions.startup_process);
}

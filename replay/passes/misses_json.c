/* SPDX-License-Identifier: MIT */
#include "replay/passes/misses_json.h"

#include "replay/parent/report_json.h"
#include "replay/passes/instructions_json.h"

/* Totals of the program are from its recording: the replay executes nothing of it. NULL: not in the recording. */
static json_t *total_json(const struct access_stream *stream, enum access_total total) {
  return stream->totals_known >> total & 1 ? json_unsigned(stream->totals[total]) : json_null();
}

static json_t *sum_json(const json_t *left, const json_t *right) {
  if (!json_is_integer(left) || !json_is_integer(right))
    return json_null();
  return json_integer(json_integer_value(left) + json_integer_value(right));
}

/* The recording begins after the dynamic linker's work: that of the engine's process is used for the program's. It is
   outside of all bursts. */
static void set_with_startup(json_t *program, const char *key, const struct access_stream *stream,
                             enum access_total total, const json_t *startup) {
  json_t *recorded = total_json(stream, total);
  if (json_is_integer(recorded) && !stream->has_bursts)
    json_integer_set(recorded, json_integer_value(recorded) + json_integer_value(startup));
  json_object_set_new(program, key, recorded);
}

/* Rows of caches or TLBs: their size, ways and data misses; for caches, also the sequential misses among them. */
static json_t *levels_json(const json_t *levels, const char *size) {
  json_t *rows = json_array();
  size_t index;
  json_t *level;
  json_array_foreach(levels, index, level) {
    json_t *row = json_object();
    const char *const keys[] = {size, "ways", "misses", "sequential_misses", "first_misses"};
    for (size_t key = 0; key < sizeof keys / sizeof *keys; key++)
      if (json_object_get(level, keys[key]))
        json_object_set(row, keys[key], json_object_get(level, keys[key]));
    json_array_append_new(rows, row);
  }
  return rows;
}

/* The misses of each cache or TLB up to each edge. */
static json_t *until_edges_json(const json_t *levels, const char *size) {
  json_t *rows = json_array(), *level;
  size_t index;
  json_array_foreach(levels, index, level) json_array_append_new(
      rows, json_pack("{s:O, s:O}", size, json_object_get(level, size), "misses", json_object_get(level, "snapshots")));
  return rows;
}

static json_t *windows_json(const struct run *run) {
  return json_pack("{s:o, s:o, s:o}", "positions", window_positions_json(&run->result->setup.edges), "caches",
                   until_edges_json(json_object_get(run->simulated, "caches"), "bytes"), "tlbs",
                   until_edges_json(json_object_get(run->simulated, "tlbs"), "entries"));
}

/* Figures as simulated: of both sides, or one. */
static json_t *simulated_json(const json_t *from) {
  json_t *out = json_object();
  for (const char *const *key = (const char *const[]){"instructions", "string_instructions", "string_bytes",
                                                      "data_accesses", "page_faults", "syscalls", NULL};
       *key; key++)
    json_object_set_new(out, *key,
                        json_is_integer(json_object_get(from, *key)) ? json_incref(json_object_get(from, *key))
                                                                     : json_null());
  if (json_object_get(from, "unsure_page_faults"))
    json_object_set(out, "unsure_page_faults", json_object_get(from, "unsure_page_faults"));
  json_object_set_new(out, "caches", levels_json(json_object_get(from, "caches"), "bytes"));
  json_object_set_new(out, "tlbs", levels_json(json_object_get(from, "tlbs"), "entries"));
  return out;
}

/* What is known of a recording in bursts; all other figures are of the bursts only. */
static json_t *bursts_json(const struct access_stream *stream, const json_t *simulated) {
  json_t *bursts = json_object();
  json_set_count(bursts, "count", stream->bursts);
  for (const char *const *key = (const char *const[]){"first_lines", "first_pages", "unsure_page_faults", NULL}; *key;
       key++)
    json_object_set(bursts, *key, json_object_get(simulated, *key));
  json_object_set_new(bursts, "outside_program_instructions",
                      total_json(stream, ACCESS_TOTAL_OUTSIDE_PROGRAM_INSTRUCTIONS));
  json_object_set(bursts, "outside_allocator_instructions",
                  json_object_get(json_object_get(simulated, "outside"), "allocator_instructions"));
  return bursts;
}

void report_misses(json_t *into, const struct run *run) {
  const struct access_stream *stream = &run->accesses;
  json_t *out = simulated_json(run->simulated);
  json_t *allocator = simulated_json(json_object_get(run->simulated, "allocator"));
  json_t *program = simulated_json(json_object_get(run->simulated, "program"));
  json_t *startup = json_object_get(run->simulated, "startup");
  json_t *startup_accesses = json_object_get(run->simulated, "startup_accesses");
  const struct {
    const char *key;
    enum access_total total;
  } executed[] = {
      {"instructions", ACCESS_TOTAL_PROGRAM_INSTRUCTIONS},
      {"string_instructions", ACCESS_TOTAL_STRING_INSTRUCTIONS},
      {"string_bytes", ACCESS_TOTAL_STRING_BYTES},
  };
  for (size_t at = 0; at < sizeof executed / sizeof *executed; at++)
    set_with_startup(program, executed[at].key, stream, executed[at].total, json_object_get(startup, executed[at].key));
  set_with_startup(program, "data_accesses", stream, ACCESS_TOTAL_PROGRAM_ACCESSES, startup_accesses);
  json_object_set_new(program, "syscalls", total_json(stream, ACCESS_TOTAL_SYSCALLS));
  const char *const sums[] = {"string_instructions", "string_bytes", "data_accesses", "syscalls", NULL};
  for (const char *const *key = sums; *key; key++)
    json_object_set_new(out, *key, sum_json(json_object_get(allocator, *key), json_object_get(program, *key)));
  json_object_del(out, "instructions");
  json_object_set(out, "program_instructions", json_object_get(program, "instructions"));
  json_object_set(out, "allocator_instructions", json_object_get(allocator, "instructions"));
  /* The recording doesn't say which the program's were. */
  if (json_object_get(json_object_get(run->simulated, "allocator"), "syscalls_by_kind"))
    json_object_set(allocator, "syscalls_by_kind",
                    json_object_get(json_object_get(run->simulated, "allocator"), "syscalls_by_kind"));
  json_object_set_new(out, "allocator", allocator);
  json_object_set_new(out, "program", program);
  json_object_del(out, "unsure_page_faults"); /* they are among those of bursts */
  if (stream->has_bursts)
    json_object_set_new(out, "bursts", bursts_json(stream, run->simulated));
  if (run->result->setup.edges.count > 0)
    json_object_set_new(out, "windows", windows_json(run));
  json_object_set(out, "startup_instructions", json_object_get(startup, "instructions"));
  json_object_set(out, "startup_accesses", startup_accesses);
  json_set_count(out, "simulated_accesses", stream->accesses);
  json_object_set(out, "lost_accesses", json_object_get(run->simulated, "lost_accesses"));
  json_set_count(out, "filter_bytes", stream->filter_bytes);
  json_object_set_new(into, "misses", out);
}

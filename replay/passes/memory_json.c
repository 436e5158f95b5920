/* SPDX-License-Identifier: MIT */
#include "core/base/os.h"
#include "replay/memory/residency.h"
#include "replay/parent/run.h"
#include "replay/passes/memory.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static json_t *map_json(const struct memory_figures *result) {
  char *cells = report_packed(result->map, result->map_used_bytes);
  if (!cells)
    return NULL;
  json_t *positions = json_array();
  for (uint64_t index = 0; index < result->map_positions_count; index++)
    json_array_append_new(positions, json_integer((json_int_t)result->map_positions[index]));
  static const char *const methods[] = {
      [RESIDENCY_NONE] = "none", [RESIDENCY_SCAN] = "pagemap scan", [RESIDENCY_PAGEMAP] = "pagemap"};
  json_t *map =
      json_pack("{s:I, s:o, s:s, s:[s, s, s], s:s, s:s, s:I, s:I}", "region_bytes", (json_int_t)result->map_cell_bytes,
                "positions", positions, "encoding", "zlib+base64", "columns", "region", "live_bytes", "resident_bytes",
                "residency", methods[result->map_residency], "cells", cells, "bytes_lost",
                (json_int_t)result->map_lost_bytes, "resident_bytes_lost", (json_int_t)result->map_lost_resident_bytes);
  free(cells);
  return map;
}

enum { COLUMNS_LIMIT = 8 + FILL_CLASSES + 3 * WALK_STATES };

/* The columns so far: their names, and their values one column after another. */
struct columns {
  const struct memory_figures *result;
  json_t *names;
  uint64_t *values;
  size_t used;
};

/* Adds the column of the u64 at that offset in each row. */
static void add_column(struct columns *columns, const char *name, size_t offset) {
  json_array_append_new(columns->names, json_string(name));
  for (uint64_t row = 0; row < columns->result->fragmentation_count; row++)
    columns->values[columns->used++] = *(const uint64_t *)((const char *)&columns->result->fragmentation[row] + offset);
}

static void add_sums(struct columns *columns) {
#define SUM(name, member) add_column(columns, name, offsetof(struct fragmentation_row, sum.member))
  SUM("live_resident_bytes", live_bytes);
  SUM("rounding_bytes", rounding_bytes);
  SUM("beside_live_bytes", beside_bytes);
  SUM("empty_bytes", empty_bytes);
  SUM("never_used_bytes", untouched_bytes);
  SUM("overlap_bytes", overlap_bytes);
#undef SUM
}

static void add_fills(struct columns *columns) {
  for (unsigned class = 0; class < FILL_CLASSES; class ++) {
    char name[32];
    bool last = class == FILL_CLASSES - 1;
    snprintf(name, sizeof name, class == FILL_CLASSES - 2 ? "os_pages_below_100" : "os_pages_%u",
             last ? 100 : class * 10);
    add_column(columns, name, offsetof(struct fragmentation_row, sum.os_pages) + class * sizeof(uint64_t));
  }
}

static void add_walk(struct columns *columns) {
  static const struct {
    const char *name;
    size_t offset;
  } figures[] = {{"bytes", offsetof(struct walked, bytes)},
                 {"beside_live_bytes", offsetof(struct walked, beside_bytes)},
                 {"empty_bytes", offsetof(struct walked, empty_bytes)}};
  for (unsigned state = 0; state < columns->result->walk_states; state++) {
    for (size_t figure = 0; figure < sizeof figures / sizeof *figures; figure++) {
      char name[WALK_STATE_NAME_BYTES + 32];
      snprintf(name, sizeof name, "walk_%s_%s", columns->result->walk_state_names[state], figures[figure].name);
      add_column(columns, name,
                 offsetof(struct fragmentation_row, walked) + state * sizeof(struct walked) + figures[figure].offset);
    }
  }
}

static json_t *walk_states(const struct memory_figures *result) {
  json_t *names = json_array();
  for (unsigned state = 0; state < result->walk_states; state++)
    json_array_append_new(names, json_string(result->walk_state_names[state]));
  return names;
}

static json_t *positions(const struct memory_figures *result) {
  json_t *array = json_array();
  for (uint64_t row = 0; row < result->fragmentation_count; row++)
    json_array_append_new(array, json_unsigned(result->fragmentation[row].position));
  return array;
}

static json_t *fragmentation_json(const struct memory_figures *result, const struct baseline *baseline) {
  if (result->fragmentation_count == 0)
    return json_null();
  uint64_t rows = result->fragmentation_count;
  struct columns columns = {result, json_array(), calloc(rows * COLUMNS_LIMIT, sizeof(uint64_t)), 0};
  if (!columns.values)
    return NULL;
  add_column(&columns, "rss_anon_bytes", offsetof(struct fragmentation_row, rss_anon_bytes));
  for (uint64_t row = 0; row < rows; row++)
    columns.values[row] = above(columns.values[row], baseline->rss_anon_bytes);
  add_column(&columns, "live_bytes", offsetof(struct fragmentation_row, live_bytes));
  add_sums(&columns);
  add_fills(&columns);
  add_walk(&columns);
  char *packed = report_packed(columns.values, columns.used * sizeof(uint64_t));
  free(columns.values);
  if (!packed)
    return NULL;
  json_t *out = json_pack("{s:o, s:o, s:o, s:s, s:s, s:b, s:o}", "os_page_bytes", json_unsigned(os_page_bytes()),
                          "positions", positions(result), "columns", columns.names, "encoding", "zlib+base64", "values",
                          packed, "usable_size", !result->usable_size_missing, "walk_states", walk_states(result));
  free(packed);
  return out;
}

/* Each sample counts for the ops up to the next one. */
static double mean_over_positions(const struct memory_figures *result, uint64_t baseline) {
  double sum = 0;
  uint64_t last = result->timeline[result->rows - 1].position;
  if (last == 0)
    return (double)above(result->timeline[0].rss_anon_bytes, baseline);
  for (uint64_t row = 0; row + 1 < result->rows; row++)
    sum += (double)above(result->timeline[row].rss_anon_bytes, baseline) *
           (double)(result->timeline[row + 1].position - result->timeline[row].position);
  return sum / (double)last;
}

static void add_wall_times(json_t *into, const struct memory_figures *result, uint64_t baseline) {
  double sum = 0, part_ns = (double)result->wall_ns / WALL_PARTS;
  json_t *parts = json_array();
  for (unsigned part = 0; part < WALL_PARTS; part++) {
    sum += result->wall_byte_ns[part];
    json_array_append_new(parts, json_unsigned(above((uint64_t)(result->wall_byte_ns[part] / part_ns), baseline)));
  }
  json_set_count(into, "rss_anon_wall_mean_bytes", above((uint64_t)(sum / (double)result->wall_ns), baseline));
  json_object_set_new(into, "wall_parts",
                      json_pack("{s:o,s:o,s:o}", "from_ns", json_unsigned(result->wall_from_ns), "ns",
                                json_unsigned(result->wall_ns), "rss_anon_bytes", parts));
}

static void add_timeline(json_t *into, const struct memory_figures *result, const struct baseline *baseline) {
  json_t *timeline = json_array();
  for (uint64_t index = 0; index < result->rows; index++) {
    const struct memory_row *row = &result->timeline[index];
    json_array_append_new(timeline, json_pack("[o, o, o, o]", json_unsigned(row->position),
                                              json_unsigned(above(row->rss_anon_bytes, baseline->rss_anon_bytes)),
                                              json_unsigned(above(row->vm_size_bytes, baseline->vm_size_bytes)),
                                              json_unsigned(row->live_bytes)));
  }
  json_set_count(into, "rss_anon_mean_bytes", (uint64_t)mean_over_positions(result, baseline->rss_anon_bytes));
  if (result->wall_ns > 0)
    add_wall_times(into, result, baseline->rss_anon_bytes);
  json_object_set_new(into, "timeline", timeline);
  if (result->rows_lost > 0)
    json_set_count(into, "timeline_rows_lost", result->rows_lost);
}

/* The larger of the maxima of the samples and of the readings before system calls; exact where the latter exist and no
   two threads ran at the same time. */
static void add_peaks(json_t *into, const struct run *run, const struct baseline *baseline) {
  const struct memory_figures *result = run->figures;
  uint64_t rss = run->syscalls.peak.rss_anon_bytes, vm = run->syscalls.peak.vm_size_bytes;
  uint64_t position = run->syscalls.rss_peak_position;
  for (uint64_t index = 0; index < result->rows; index++) {
    const struct memory_row *row = &result->timeline[index];
    if (row->rss_anon_bytes > rss) {
      rss = row->rss_anon_bytes;
      position = row->position;
    }
    vm = row->vm_size_bytes > vm ? row->vm_size_bytes : vm;
  }
  bool exact = !run->syscalls.missing_because && order_by_turns(run->spec->order);
  json_set_count(into, "rss_anon_peak_bytes", above(rss, baseline->rss_anon_bytes));
  json_set_count(into, "rss_anon_peak_position", position);
  json_set_count(into, "vm_size_peak_bytes", above(vm, baseline->vm_size_bytes));
  json_object_set_new(into, "peaks", json_string(exact ? "exact" : "sampled"));
  /* The kernel's own maximum, of the whole process: to check the other peaks. */
  json_set_count(into, "vm_hwm_bytes", result->vm_hwm_bytes);
}

static json_t *by_kind(const uint64_t values[COUNTED_SYSCALLS]) {
  json_t *object = json_object();
  for (int number = 0; number < COUNTED_SYSCALLS; number++)
    json_set_count(object, syscall_names[number], values[number]);
  return object;
}

static void add_syscalls(json_t *into, const struct syscalls *syscalls) {
  if (syscalls->missing_because) {
    json_object_set_new(into, "syscalls_missing_because", json_string(syscalls->missing_because));
    return;
  }
  json_object_set_new(into, "syscalls", by_kind(syscalls->counts));
  json_object_set_new(into, "syscall_bytes", by_kind(syscalls->bytes));
  json_t *rows = json_array();
  for (uint64_t index = 0; index < syscalls->row_count; index++) {
    const struct syscall_row *row = &syscalls->rows[index];
    json_array_append_new(rows, json_pack("[o, s, o]", json_unsigned(row->position), syscall_names[row->number],
                                          json_unsigned(row->bytes)));
  }
  json_object_set_new(into, "syscall_rows", rows);
  if (syscalls->rows_lost > 0)
    json_set_count(into, "syscall_rows_lost", syscalls->rows_lost);
}

/* The memory that the allocator holds with nothing live, before and after its purge call. */
static void add_held(json_t *into, const struct run *run, const struct baseline *baseline) {
  const struct memory_figures *result = run->figures;
  json_t *held = json_object();
  json_set_count(held, "rss_anon_bytes", above(result->freed.rss_anon_bytes, baseline->rss_anon_bytes));
  json_set_count(held, "vm_size_bytes", above(result->freed.vm_size_bytes, baseline->vm_size_bytes));
  json_object_set_new(held, "purge_call", result->purge_call[0] ? json_string(result->purge_call) : json_null());
  if (result->purge_call[0]) {
    json_set_count(held, "purged_rss_anon_bytes", above(result->purged.rss_anon_bytes, baseline->rss_anon_bytes));
    json_set_count(held, "purged_vm_size_bytes", above(result->purged.vm_size_bytes, baseline->vm_size_bytes));
  }
  if (!run->syscalls.missing_because)
    json_object_set_new(held, "syscalls", by_kind(run->syscalls.emptying_counts));
  json_object_set_new(into, "held", held);
}

void memory_report(json_t *into, const struct run *run) {
  const struct baseline *baseline = &run->baseline;
  if (run->spec->baseline_only) {
    json_set_count(into, "rss_anon_bytes", ((const struct memory_figures *)run->figures)->rss_anon_start_bytes);
    json_set_count(into, "vm_size_bytes", ((const struct memory_figures *)run->figures)->vm_size_start_bytes);
    return;
  }
  const struct memory_figures *result = run->figures;
  add_peaks(into, run, baseline);
  add_timeline(into, result, baseline);
  add_syscalls(into, &run->syscalls);
  json_set_count(into, "rss_anon_baseline_bytes", baseline->rss_anon_bytes);
  json_set_count(into, "vm_size_baseline_bytes", baseline->vm_size_bytes);
  json_set_count(into, "rss_anon_start_bytes", above(result->rss_anon_start_bytes, baseline->rss_anon_bytes));
  json_set_count(into, "rss_anon_end_bytes", above(result->rss_anon_end_bytes, baseline->rss_anon_bytes));
  json_set_count(into, "vm_size_end_bytes", above(result->vm_size_end_bytes, baseline->vm_size_bytes));
  json_set_count(into, "live_bytes_end", result->live_bytes_end);
  json_set_count(into, "live_bytes_peak", result->live_bytes_peak);
  json_set_count(into, "page_faults", (int64_t)run->result->page_faults > 0 ? run->result->page_faults : 0);
  json_set_count(into, "startup_page_faults", run->result->startup_page_faults);
  json_set_count(into, "huge_pages", result->huge_pages);
  json_set_count(into, "startup_huge_pages", run->result->startup_huge_pages);
  json_set_count(into, "page_faults_major", run->result->page_faults_major);
  add_held(into, run, baseline);
  json_object_set_new(into, "memory_map", map_json(result));
  json_object_set_new(into, "fragmentation", fragmentation_json(result, baseline));
}

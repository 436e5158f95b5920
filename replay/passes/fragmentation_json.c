/* SPDX-License-Identifier: MIT */
#include "replay/passes/fragmentation_json.h"

#include "core/base/os.h"
#include "replay/parent/report_json.h"
#include "replay/parent/report_packed.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum { COLUMNS_LIMIT = 8 + FILL_CLASSES + 3 * WALK_STATES };

/* The columns so far: their names, and their values one column after another. */
struct columns {
  const struct replay_result *result;
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

static json_t *walk_states(const struct replay_result *result) {
  json_t *names = json_array();
  for (unsigned state = 0; state < result->walk_states; state++)
    json_array_append_new(names, json_string(result->walk_state_names[state]));
  return names;
}

static json_t *positions(const struct replay_result *result) {
  json_t *array = json_array();
  for (uint64_t row = 0; row < result->fragmentation_count; row++)
    json_array_append_new(array, json_unsigned(result->fragmentation[row].position));
  return array;
}

json_t *report_fragmentation(const struct replay_result *result, const struct baseline *baseline) {
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

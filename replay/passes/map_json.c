/* SPDX-License-Identifier: MIT */
#include "replay/passes/map_json.h"

#include "replay/memory/residency.h"
#include "replay/parent/report_packed.h"

#include <stdlib.h>

json_t *report_map(const struct replay_result *result) {
  char *cells = report_packed(result->map, result->map_used_bytes);
  if (!cells)
    return NULL;
  json_t *positions = json_array();
  for (uint64_t index = 0; index < result->map_positions_count; index++)
    json_array_append_new(positions, json_integer((json_int_t)result->map_positions[index]));
  static const char *const methods[] = {
      [RESIDENCY_NONE] = "none", [RESIDENCY_SCAN] = "pagemap scan", [RESIDENCY_PAGEMAP] = "pagemap"};
  json_t *map = json_pack(
      "{s:I, s:o, s:s, s:[s, s, s], s:s, s:s, s:I, s:I}", "region_bytes", (json_int_t)result->map_region_bytes,
      "positions", positions, "encoding", "zlib+base64", "columns", "region", "live_bytes", "resident_bytes",
      "residency", methods[result->map_residency], "cells", cells, "bytes_lost", (json_int_t)result->map_lost_bytes,
      "resident_bytes_lost", (json_int_t)result->map_lost_resident_bytes);
  free(cells);
  return map;
}

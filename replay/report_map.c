#include "replay/report_map.h"

#include "replay/residency.h"

#include <stdlib.h>
#include <zlib.h>

static char *base64(const uint8_t *bytes, size_t count) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char *text = malloc((count + 2) / 3 * 4 + 1), *at = text;
  if (!text)
    return NULL;
  for (size_t index = 0; index < count; index += 3) {
    size_t left = count - index;
    uint32_t group = (uint32_t)bytes[index] << 16;
    group |= left > 1 ? (uint32_t)bytes[index + 1] << 8 : 0;
    group |= left > 2 ? bytes[index + 2] : 0;
    *at++ = digits[group >> 18];
    *at++ = digits[group >> 12 & 63];
    *at++ = left > 1 ? digits[group >> 6 & 63] : '=';
    *at++ = left > 2 ? digits[group & 63] : '=';
  }
  *at = '\0';
  return text;
}

static char *packed_cells(const struct replay_result *result) {
  uLongf bytes = compressBound(result->map_used_bytes);
  uint8_t *packed = malloc(bytes);
  char *text = NULL;
  if (packed && compress2(packed, &bytes, result->map, result->map_used_bytes, 6) == Z_OK)
    text = base64(packed, bytes);
  free(packed);
  return text;
}

json_t *report_map(const struct replay_result *result) {
  char *cells = packed_cells(result);
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

/* SPDX-License-Identifier: MIT */
#include "core/trace/read/reader.h"
#include "core/trace/read/trace_read.h"

#include <stdlib.h>

typedef int (*gap_visit)(void *context, uint64_t events_before, uint64_t dropped, const char *why);

/* Returns the gap's JSON object; NULL with error. */
static json_t *read_gap(const struct trace_reader *reader, const struct block_place *place, struct error *error) {
  struct block block;
  json_t *gap = NULL;
  if (reader_block(reader, place, &block, error) == 0)
    free(block_read_json(&block, &gap, error));
  return gap;
}

int trace_reader_gaps(struct trace_reader *reader, uint32_t thread, gap_visit visit, void *context,
                      struct error *error) {
  uint64_t events = 0;
  int result = 0;
  size_t count = place_count(&reader->places);
  for (size_t i = reader_first_place(reader, thread); i < count && result == 0; i++) {
    const struct block_place *place = place_at(&reader->places, i);
    if (place->thread != thread)
      break;
    events += place->rows;
    if (place->type != BLOCK_GAP)
      continue;
    json_t *gap = read_gap(reader, place, error);
    if (!gap)
      return -1;
    const char *why = json_string_value(json_object_get(gap, "why"));
    uint64_t dropped = (uint64_t)json_integer_value(json_object_get(gap, "dropped"));
    result = visit(context, events, dropped, why ? why : "");
    json_decref(gap);
  }
  return result;
}

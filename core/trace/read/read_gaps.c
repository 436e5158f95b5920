#include "core/trace/read/reader.h"
#include "core/trace/read/trace_read.h"

#include <stdlib.h>

typedef int (*gap_visit)(void *context, uint64_t events_before, uint64_t dropped, const char *why);

static int visit_gap(const struct trace_reader *reader, const struct block_place *place, uint64_t events_before,
                     gap_visit visit, void *context, struct error *error) {
  struct block block;
  json_t *gap = NULL;
  if (block_read_head(&reader->source, place->offset, &block, error) != 1)
    return error_at(error, reader->path, place->offset, "file shrank while it was read");
  char *text = block_read_json(&reader->source, place->offset, &block, &gap, error);
  if (!text)
    return -1;
  const char *why = json_string_value(json_object_get(gap, "why"));
  uint64_t dropped = (uint64_t)json_integer_value(json_object_get(gap, "dropped"));
  int stop = visit(context, events_before, dropped, why ? why : "");
  json_decref(gap);
  free(text);
  return stop;
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
    if (place->type == BLOCK_GAP)
      result = visit_gap(reader, place, events, visit, context, error);
    events += place->rows;
  }
  return result;
}

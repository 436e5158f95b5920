/* SPDX-License-Identifier: MIT */
#include "replay/passes/windows.h"

#include "core/base/json.h"
#include "core/system/valgrind_requests.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 32 };

static bool is_position(const char *line, uint64_t *position) {
  char *end;
  errno = 0;
  *position = strtoull(line, &end, 10);
  return *line >= '0' && *line <= '9' && errno == 0 && (*end == '\0' || strcmp(end, "\n") == 0);
}

/* Returns what is wrong with the line; NULL: its position was added. */
static const char *add_line(struct window_edges *edges, const char *line, uint64_t ops) {
  uint64_t position;
  if (!is_position(line, &position))
    return "is not a position";
  if (position > ops)
    return "is behind the workload's end";
  if (edges->count > 0 && position <= edges->positions[edges->count - 1])
    return "is not above the line before it";
  if (edges->count == WINDOW_EDGES_LIMIT)
    return "is one position too many";
  edges->positions[edges->count++] = position;
  return NULL;
}

int windows_read(struct window_edges *edges, const struct run_spec *spec, struct error *error) {
  const char *path = spec->windows;
  if (!path)
    return 0;
  FILE *file = fopen(path, "r");
  if (!file)
    return error_errno(error, path, "can't open");
  char line[TEXT_BYTES];
  const char *wrong = NULL;
  uint64_t number = 0;
  edges->count = 0;
  while (!wrong && fgets(line, sizeof line, file)) {
    wrong = add_line(edges, line, spec->ops);
    number++;
  }
  bool unread = ferror(file);
  fclose(file);
  if (unread)
    return error_set(error, path, "can't be read");
  if (wrong)
    return error_set(error, path, "line %" PRIu64 " %s", number, wrong);
  return edges->count >= 2 ? 0 : error_set(error, path, "has fewer than two positions");
}

json_t *windows_positions_json(const struct window_edges *edges) {
  json_t *positions = json_array();
  for (uint32_t edge = 0; edge < edges->count; edge++)
    json_array_append_new(positions, json_unsigned(edges->positions[edge]));
  return positions;
}

static struct {
  const struct window_edges *edges;
  uint32_t passed;
  uint64_t done, next; /* ops; UINT64_MAX: no more edges */
} windows = {.next = UINT64_MAX};

static void pass_edge(void) {
  if (windows.passed < windows.edges->count && windows.edges->positions[windows.passed] == windows.done) {
    valgrind_request(VALGRIND_REQUEST_SNAPSHOT, (const unsigned long[VALGRIND_ARGUMENTS]){0});
    windows.passed++;
  }
  windows.next = windows.passed < windows.edges->count ? windows.edges->positions[windows.passed] : UINT64_MAX;
}

void windows_begin(const struct window_edges *edges) {
  windows.edges = edges;
  pass_edge();
}

void windows_after_op(void) {
  if (++windows.done == windows.next)
    pass_edge();
}

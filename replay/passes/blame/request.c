/* SPDX-License-Identifier: MIT */
#include "core/workload/origins.h"
#include "replay/passes/blame/blame.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_POSITIONS = 64 };

static int load_json(struct origin_names *names, const struct origins *origins, struct error *error) {
  json_error_t wrong;
  uint64_t offset = origins->header.file_bytes - origins->header.json_bytes;
  names->json = json_loadb(origins->json, origins->header.json_bytes, 0, &wrong);
  if (!names->json)
    return error_at(error, origins->path, offset + (wrong.position > 0 ? (uint64_t)wrong.position : 0),
                    "invalid JSON: %s", wrong.text);
  if (json_array_size(json_object_get(names->json, "sites")) != origins->header.sites ||
      json_array_size(json_object_get(names->json, "functions")) != origins->header.functions ||
      json_array_size(json_object_get(names->json, "marks")) != origins->header.marks)
    return error_at(error, origins->path, offset,
                    "its JSON and its tables do not have the same sites, functions or marks");
  return 0;
}

static int origin_names_open(struct origin_names *names, const char *path, const struct workload_header *workload,
                             struct error *error) {
  *names = (struct origin_names){.fd = -1};
  if (!path)
    return 0;
  /* Not closed on exec: the engine maps it. */
  names->fd = open(path, O_RDONLY);
  if (names->fd < 0)
    return error_errno(error, path, "can't open");
  struct origins origins;
  if (origins_open_fd(&origins, names->fd, path, workload, error) != 0)
    return -1;
  int status = origins_check_sites(&origins, error);
  if (status == 0)
    status = load_json(names, &origins, error);
  origins_close(&origins);
  return status;
}

static bool is_position(const char *text, uint64_t *position) {
  char *end;
  errno = 0;
  *position = strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

static int find_mark(const char *text, const json_t *marks, uint64_t *position) {
  size_t index;
  const json_t *mark;
  json_array_foreach(marks, index, mark) {
    const char *name = json_string_value(json_object_get(mark, "name"));
    if (!name || strcmp(name, text) != 0)
      continue;
    *position = (uint64_t)json_integer_value(json_object_get(mark, "position"));
    return 0;
  }
  return -1;
}

/* Adds the position in rising order, each once. The end is added elsewhere. */
static void add_requested(struct blame_request *request, struct requested_position added, uint64_t ops) {
  if (added.position == ops) {
    request->end_why |= added.why;
    return;
  }
  uint32_t place = request->requested_count;
  while (place > 0 && request->requested[place - 1].position > added.position)
    place--;
  if (place > 0 && request->requested[place - 1].position == added.position) {
    request->requested[place - 1].why |= added.why;
    return;
  }
  memmove(&request->requested[place + 1], &request->requested[place],
          (request->requested_count - place) * sizeof *request->requested);
  request->requested[place] = added;
  request->requested_count++;
}

static int resolve_positions(struct blame_request *request, const struct run_spec *spec,
                             const struct workload_header *workload, const json_t *marks, struct error *error) {
  for (uint32_t index = 0; index < spec->at.count; index++) {
    const char *text = spec->at.texts[index];
    struct requested_position added = {.why = BLAME_BECAUSE_REQUESTED};
    if (strcmp(text, "peak") == 0)
      continue;
    if (strcmp(text, "end") == 0)
      added.position = workload->ops;
    else if (strcmp(text, "live-peak") == 0) /* the op that reaches it is in the header */
      added = (struct requested_position){workload->ops ? workload->peak_position + 1 : 0, BLAME_BECAUSE_LIVE_PEAK};
    else if (strncmp(text, "mark=", 5) == 0 && find_mark(text + 5, marks, &added.position) != 0)
      return error_set(error, spec->path, "no mark \"%s\"%s", text + 5, marks ? "" : ": marks need --origins");
    else if (strncmp(text, "mark=", 5) != 0)
      is_position(text, &added.position);
    if (added.position > workload->ops)
      return error_set(error, spec->path, "position %" PRIu64 " is beyond the end, %" PRIu64, added.position,
                       workload->ops);
    add_requested(request, added, workload->ops);
  }
  return 0;
}

int blame_request_resolve(struct blame_request *request, struct origin_names *names, const struct run_spec *spec,
                          const struct workload_header *workload, struct error *error) {
  request->even = spec->positions == UINT64_MAX ? DEFAULT_POSITIONS : (uint32_t)spec->positions;
  int status = origin_names_open(names, spec->origins, workload, error);
  request->origins_fd = names->fd;
  if (status == 0)
    status = resolve_positions(request, spec, workload, json_object_get(names->json, "marks"), error);
  return status;
}

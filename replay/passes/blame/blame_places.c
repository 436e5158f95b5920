/* SPDX-License-Identifier: MIT */
#include "replay/passes/blame/blame_places.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_position(const char *text, uint64_t *position) {
  char *end;
  errno = 0;
  *position = strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

bool blame_place_is_legal(const char *text) {
  uint64_t position;
  return strcmp(text, "peak") == 0 || strcmp(text, "live-peak") == 0 || strcmp(text, "end") == 0 ||
         (strncmp(text, "mark=", 5) == 0 && text[5]) || is_position(text, &position);
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
static void ask(struct blame_setup *setup, struct blame_asked asked, uint64_t ops) {
  if (asked.position == ops) {
    setup->end_why |= asked.why;
    return;
  }
  uint32_t place = setup->asked_count;
  while (place > 0 && setup->asked[place - 1].position > asked.position)
    place--;
  if (place > 0 && setup->asked[place - 1].position == asked.position) {
    setup->asked[place - 1].why |= asked.why;
    return;
  }
  memmove(&setup->asked[place + 1], &setup->asked[place], (setup->asked_count - place) * sizeof *setup->asked);
  setup->asked[place] = asked;
  setup->asked_count++;
}

int blame_places_resolve(struct blame_setup *setup, const struct blame_places *places,
                         const struct workload_header *workload, const json_t *marks, struct error *error) {
  for (unsigned index = 0; index < places->count; index++) {
    const char *text = places->texts[index];
    struct blame_asked asked = {.why = BLAME_BECAUSE_ASKED};
    if (strcmp(text, "peak") == 0)
      continue;
    if (strcmp(text, "end") == 0)
      asked.position = workload->ops;
    else if (strcmp(text, "live-peak") == 0) /* the op that reaches it is in the header */
      asked = (struct blame_asked){workload->ops ? workload->peak_position + 1 : 0, BLAME_BECAUSE_LIVE_PEAK};
    else if (strncmp(text, "mark=", 5) == 0 && find_mark(text + 5, marks, &asked.position) != 0)
      return error_set(error, places->path, "no mark \"%s\"%s", text + 5, marks ? "" : ": marks need --origins");
    else if (strncmp(text, "mark=", 5) != 0)
      is_position(text, &asked.position);
    if (asked.position > workload->ops)
      return error_set(error, places->path, "position %" PRIu64 " is beyond the end, %" PRIu64, asked.position,
                       workload->ops);
    ask(setup, asked, workload->ops);
  }
  return 0;
}

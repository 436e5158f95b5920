/* SPDX-License-Identifier: MIT */
#include "convert/spans/span_sites.h"

#include "convert/stacks/symbol_json.h"
#include "core/base/vector.h"

#include <stdlib.h>

struct span_sites {
  struct symbols *symbols; /* NULL: no stacks were recorded */
  uint32_t count;
};

struct site {
  uint64_t bytes, objects;
  uint32_t stack, place;
};

int span_sites_open(struct span_sites **out, struct trace_reader *reader, uint32_t count, struct error *error) {
  struct span_sites *sites = *out = calloc(1, sizeof *sites);
  if (!sites)
    return error_set(error, trace_reader_path(reader), "out of memory");
  sites->count = count;
  return trace_reader_summary(reader)->stack_nodes ? symbols_open(&sites->symbols, reader, false, error) : 0;
}

void span_sites_close(struct span_sites *sites) {
  if (!sites)
    return;
  symbols_close(sites->symbols);
  free(sites);
}

static int by_identity(const void *left, const void *right) {
  const struct site *a = left, *b = right;
  return COMPARE(a->place, b->place) ?: COMPARE(a->stack, b->stack);
}

static int by_bytes(const void *left, const void *right) {
  const struct site *a = left, *b = right;
  return COMPARE(b->bytes, a->bytes) ?: by_identity(left, right);
}

/* Joins adjacent entries of one site; returns how many are left. */
static size_t join(struct site *sites, size_t count) {
  size_t joined = 0;
  for (size_t i = 0; i < count; i++) {
    if (joined && by_identity(&sites[joined - 1], &sites[i]) == 0) {
      sites[joined - 1].bytes += sites[i].bytes;
      sites[joined - 1].objects += sites[i].objects;
    } else {
      sites[joined++] = sites[i];
    }
  }
  return joined;
}

static json_t *frames_json(const struct span_sites *sites, uint32_t node) {
  json_t *frames = json_array();
  for (; sites->symbols && node; node = symbols_parent(sites->symbols, node)) {
    size_t count;
    const struct symbol *symbol = symbols_of(sites->symbols, node, &count);
    for (size_t i = 0; i < count; i++)
      json_array_append_new(frames, symbol_json(&symbol[i]));
  }
  return frames;
}

static json_t *site_json(const struct span_sites *sites, const struct site *site) {
  return json_pack("{sI sI so so}", "bytes", (json_int_t)site->bytes, "objects", (json_int_t)site->objects, "place",
                   site->place ? json_integer(site->place) : json_null(), "frames", frames_json(sites, site->stack));
}

json_t *span_sites_json(struct span_sites *sites, const struct span_object *objects, size_t count, uint32_t span) {
  VECTOR(struct site) found = {0};
  for (size_t i = 0; i < count; i++) {
    if (objects[i].span != span)
      continue;
    struct site *site = vector_add(&found);
    if (!site) {
      free(found.at);
      return NULL;
    }
    *site = (struct site){objects[i].size_bytes, 1, objects[i].stack, objects[i].place};
  }
  json_t *list = json_array();
  vector_sort(&found, by_identity);
  found.count = join(found.at, found.count);
  vector_sort(&found, by_bytes);
  for (size_t i = 0; i < found.count && i < sites->count; i++)
    json_array_append_new(list, site_json(sites, &found.at[i]));
  free(found.at);
  return list;
}

/* SPDX-License-Identifier: MIT */
#include "convert/inspect/dump_stacks.h"

#include "convert/stacks/symbol_json.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

static void print_text(FILE *out, const struct symbol *symbol) {
  if (!symbol->module && !symbol->offset) {
    fputs("#   ... (frames beyond the depth of the recording)\n", out);
    return;
  }
  fprintf(out, "#   %s", symbol->function ? symbol->function : "?");
  if (symbol->file)
    fprintf(out, " at %s:%d", symbol->file, symbol->line);
  if (symbol->module)
    fprintf(out, " in %s+0x%" PRIx64 "\n", symbol->module, symbol->offset);
  else
    fprintf(out, " in 0x%" PRIx64 "\n", symbol->offset);
}

int dump_stack_as_text(FILE *out, struct symbols *symbols, uint32_t node) {
  fprintf(out, "# stack %" PRIu32 "\n", node);
  for (; node; node = symbols_parent(symbols, node)) {
    size_t count;
    const struct symbol *symbol = symbols_of(symbols, node, &count);
    for (size_t i = 0; i < count; i++)
      print_text(out, &symbol[i]);
  }
  return ferror(out) ? -1 : 0;
}

static int print_json(FILE *out, json_t *object) {
  char *text = json_dumps(object, JSON_PRESERVE_ORDER);
  json_decref(object);
  if (!text) {
    errno = ENOMEM;
    return -1;
  }
  fprintf(out, "%s\n", text);
  free(text);
  return ferror(out) ? -1 : 0;
}

static void add_frames(json_t *frames, struct symbols *symbols, uint32_t node) {
  size_t count;
  const struct symbol *symbol = symbols_of(symbols, node, &count);
  for (size_t i = 0; i < count; i++)
    json_array_append_new(frames, symbol_json(&symbol[i]));
}

int dump_stack_as_json(FILE *out, struct symbols *symbols, uint32_t node) {
  json_t *frames = json_array(), *object = json_object();
  json_object_set_new(object, "stack", json_integer(node));
  for (; node; node = symbols_parent(symbols, node))
    add_frames(frames, symbols, node);
  json_object_set_new(object, "frames", frames);
  return print_json(out, object);
}

int dump_stack_nodes(struct trace_reader *reader, bool fetch, FILE *out, const char *out_name, struct error *error) {
  struct symbols *symbols;
  if (symbols_open(&symbols, reader, fetch, error) != 0)
    return -1;
  int result = 0;
  for (uint32_t node = 1; result == 0 && node <= symbols_nodes(symbols); node++) {
    json_t *frames = json_array(), *object = json_object();
    json_object_set_new(object, "node", json_integer(node));
    json_object_set_new(object, "parent", json_integer(symbols_parent(symbols, node)));
    add_frames(frames, symbols, node);
    json_object_set_new(object, "frames", frames);
    result = print_json(out, object);
  }
  symbols_close(symbols);
  return result == 0 && fflush(out) == 0 ? 0 : error_errno(error, out_name, "can't write");
}

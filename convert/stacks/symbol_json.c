/* SPDX-License-Identifier: MIT */
#include "convert/stacks/symbol_json.h"

#include <inttypes.h>
#include <stdio.h>

json_t *symbol_text_json(const char *text) {
  json_t *string = json_string(text);
  return string ? string : json_string("?");
}

json_t *symbol_json(const struct symbol *symbol) {
  json_t *frame = json_object();
  char offset[24];
  if (symbol->function)
    json_object_set_new(frame, "function", symbol_text_json(symbol->function));
  if (symbol->file)
    json_object_set_new(frame, "file", symbol_text_json(symbol->file));
  if (symbol->line)
    json_object_set_new(frame, "line", json_integer(symbol->line));
  if (symbol->module)
    json_object_set_new(frame, "module", symbol_text_json(symbol->module));
  snprintf(offset, sizeof offset, "0x%" PRIx64, symbol->offset);
  if (symbol->offset)
    json_object_set_new(frame, "offset", json_string(offset));
  return frame;
}

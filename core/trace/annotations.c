/* SPDX-License-Identifier: MIT */
#include "core/trace/annotations.h"

#include <stdlib.h>
#include <string.h>

static bool copy_text(const char **to, const char *text) {
  *to = text ? strdup(text) : NULL;
  return *to || !text;
}

bool trace_module_copy(struct trace_module *to, const struct trace_module *from) {
  *to = *from;
  bool name = copy_text(&to->name, from->name), path = copy_text(&to->path, from->path);
  return copy_text(&to->build_id, from->build_id) && name && path;
}

void trace_module_free_texts(struct trace_module *module) {
  free((char *)module->name);
  free((char *)module->path);
  free((char *)module->build_id);
}

#include "convert/stacks/site_names.h"

#include "core/base/address_map.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 512, NAMED_FRAMES = 3 };

static const char no_stack[] = "no stack known";

struct site_names {
  struct symbols *symbols;
  json_t *frames, *sites, *functions;
  json_t *function_numbers;    /* by name */
  struct address_map frame_of; /* where the frames of a symbol begin in `frames`, by its address */
};

/* Lower case, without return type, parameters and template arguments: those may be of allocators. */
static void plain_name(const char *function, char *name, size_t bytes) {
  static const char anonymous[] = "(anonymous namespace)";
  size_t used = 0;
  int depth = 0;
  for (const char *at = function; *at && used < bytes - 1; at++) {
    if (strncmp(at, anonymous, sizeof anonymous - 1) == 0)
      at += sizeof anonymous - 2;
    else if (*at == '<')
      depth++;
    else if (*at == '>')
      depth -= depth > 0;
    else if (depth == 0 && *at == '(')
      break;
    else if (depth == 0 && *at == ' ' && !(used >= 8 && strncmp(name + used - 8, "operator", 8) == 0))
      used = 0;
    else if (depth == 0)
      name[used++] = (char)tolower((unsigned char)*at);
  }
  name[used] = '\0';
}

bool is_allocation_wrapper(const char *function) {
  char name[NAME_BYTES];
  plain_name(function, name, sizeof name);
  return strstr(name, "alloc") || strstr(name, "strdup") || strstr(name, "strndup") || strstr(name, "wcsdup") ||
         strstr(name, "memdup") || strncmp(name, "operator new", 12) == 0 || strncmp(name, "std::", 5) == 0 ||
         strncmp(name, "__gnu_cxx::", 11) == 0;
}

struct site_names *site_names_new(struct symbols *symbols) {
  struct site_names *names = calloc(1, sizeof *names);
  if (!names)
    return NULL;
  *names = (struct site_names){symbols, json_array(), json_array(), json_array(), json_object(), {0}};
  if (address_map_init(&names->frame_of) && names->frames && names->sites && names->functions &&
      names->function_numbers)
    return names;
  site_names_free(names);
  return NULL;
}

void site_names_free(struct site_names *names) {
  if (!names)
    return;
  json_decref(names->frames);
  json_decref(names->sites);
  json_decref(names->functions);
  json_decref(names->function_numbers);
  address_map_free(&names->frame_of);
  free(names);
}

/* A path or a name need not be UTF-8. */
static json_t *text_of(const char *text) {
  json_t *string = json_string(text);
  return string ? string : json_string("?");
}

static json_t *frame_json(const struct symbol *symbol) {
  json_t *frame = json_object();
  char offset[24];
  if (symbol->function)
    json_object_set_new(frame, "function", text_of(symbol->function));
  if (symbol->file)
    json_object_set_new(frame, "file", text_of(symbol->file));
  if (symbol->line)
    json_object_set_new(frame, "line", json_integer(symbol->line));
  if (symbol->module)
    json_object_set_new(frame, "module", text_of(symbol->module));
  snprintf(offset, sizeof offset, "0x%" PRIx64, symbol->offset);
  if (symbol->offset)
    json_object_set_new(frame, "offset", json_string(offset));
  return frame;
}

static void name_of(const struct symbol *symbol, char *name, size_t bytes) {
  if (symbol->function)
    snprintf(name, bytes, "%s", symbol->function);
  else if (symbol->module)
    snprintf(name, bytes, "%s+0x%" PRIx64, symbol->module, symbol->offset);
  else if (symbol->offset)
    snprintf(name, bytes, "0x%" PRIx64, symbol->offset);
  else
    snprintf(name, bytes, "...");
}

/* The first frame's index among the frames; UINT32_MAX: no memory. */
static uint32_t frames_of(struct site_names *names, const struct symbol *symbol, size_t count) {
  uint64_t key = (uint64_t)(uintptr_t)symbol;
  struct address_entry *entry = address_map_find(&names->frame_of, key);
  if (entry->address)
    return entry->slot;
  uint32_t first = (uint32_t)json_array_size(names->frames);
  for (size_t i = 0; i < count; i++)
    if (json_array_append_new(names->frames, frame_json(&symbol[i])) != 0)
      return UINT32_MAX;
  return address_map_add(&names->frame_of, entry, key, first, false) ? first : UINT32_MAX;
}

/* A stack's name as it grows, from the innermost frame on. */
struct naming {
  char innermost[NAME_BYTES], function[NAME_BYTES]; /* function: the first that is no wrapper */
  char text[NAMED_FRAMES * (NAME_BYTES + 4)];
  unsigned frames;
};

static void name_frame(struct naming *naming, const struct symbol *symbol) {
  char name[NAME_BYTES];
  name_of(symbol, name, sizeof name);
  if (!naming->innermost[0])
    memcpy(naming->innermost, name, sizeof name);
  if (naming->frames == NAMED_FRAMES ||
      (naming->frames == 0 && symbol->function && is_allocation_wrapper(symbol->function)))
    return;
  if (naming->frames == 0)
    memcpy(naming->function, name, sizeof name);
  size_t used = strlen(naming->text);
  snprintf(naming->text + used, sizeof naming->text - used, "%s%s", naming->frames ? " < " : "", name);
  naming->frames++;
}

static uint32_t number_function(struct site_names *names, const char *function) {
  json_t *text = text_of(function);
  if (!text)
    return UINT32_MAX;
  const json_t *known = json_object_get(names->function_numbers, json_string_value(text));
  json_int_t number = known ? json_integer_value(known) : (json_int_t)json_array_size(names->functions);
  if (!known && (json_object_set_new(names->function_numbers, json_string_value(text), json_integer(number)) != 0 ||
                 json_array_append(names->functions, text) != 0))
    number = UINT32_MAX;
  json_decref(text);
  return (uint32_t)number;
}

static uint32_t add_site(struct site_names *names, uint32_t node, const char *function, const char *name,
                         json_t *frames) {
  uint32_t number = number_function(names, function);
  json_t *text = text_of(name);
  json_t *site = json_pack("{sI sI so so}", "stack", (json_int_t)node, "function", (json_int_t)number, "name", text,
                           "frames", frames);
  return site && json_array_append_new(names->sites, site) == 0 ? number : UINT32_MAX;
}

uint32_t site_names_add(struct site_names *names, uint32_t node) {
  json_t *frames = json_array();
  if (!node || !names->symbols)
    return add_site(names, 0, no_stack, no_stack, frames);
  struct naming naming = {.frames = 0};
  for (uint32_t at = node; at; at = symbols_parent(names->symbols, at)) {
    size_t count;
    const struct symbol *symbol = symbols_of(names->symbols, at, &count);
    uint32_t first = frames_of(names, symbol, count);
    if (first == UINT32_MAX)
      return json_decref(frames), UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
      json_array_append_new(frames, json_integer((json_int_t)(first + i)));
      name_frame(&naming, &symbol[i]);
    }
  }
  bool named = naming.frames > 0;
  return add_site(names, node, named ? naming.function : naming.innermost, named ? naming.text : naming.innermost,
                  frames);
}

uint32_t site_names_functions(const struct site_names *names) {
  return (uint32_t)json_array_size(names->functions);
}

int site_names_json(const struct site_names *names, json_t *into) {
  int failed = json_object_set(into, "frames", names->frames) | json_object_set(into, "sites", names->sites) |
               json_object_set(into, "functions", names->functions);
  return failed ? -1 : 0;
}

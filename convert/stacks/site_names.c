/* SPDX-License-Identifier: MIT */
#include "convert/stacks/site_names.h"

#include "convert/stacks/symbols.h"
#include "core/base/address_map.h"
#include "core/base/vector.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = SITE_FUNCTION_BYTES, NAMED_FRAMES = 3, NAMELESS_WRAPPERS = 3 };

static const char no_stack[] = "no stack known";

struct site_names {
  struct symbols *symbols;
  json_t *frames, *sites, *functions;
  json_t *function_numbers;            /* by name */
  VECTOR(const struct symbol *) stack; /* the stack that is being named */
  struct address_map frame_of;         /* index of a symbol in `frames`, by its address */
};

/* In lower case, without return type, parameters and template arguments, since these may name allocators. */
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
  *names = (struct site_names){.symbols = symbols,
                               .frames = json_array(),
                               .sites = json_array(),
                               .functions = json_array(),
                               .function_numbers = json_object()};
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
  free(names->stack.at);
  free(names);
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

/* Returns the symbol's index among the frames; UINT32_MAX: no memory. */
static uint32_t frame_of(struct site_names *names, const struct symbol *symbol) {
  uint64_t key = (uint64_t)(uintptr_t)symbol;
  struct address_entry *entry = address_map_find(&names->frame_of, key);
  if (entry->address)
    return entry->slot;
  uint32_t number = (uint32_t)json_array_size(names->frames);
  bool added = json_array_append_new(names->frames, symbol_json(symbol)) == 0 &&
               address_map_add(&names->frame_of, entry, key, number, false);
  return added ? number : UINT32_MAX;
}

/* The frames of the stack that is being named, innermost first. */
static bool is_nameless(const struct site_names *names, size_t frame) {
  return !names->stack.at[frame]->function;
}

/* Returns the first frame that is not a wrapper; 0 if all are. A frame without a name counts as a wrapper if a wrapper
   called it, since functions below a wrapper allocate, too: stripped libraries have only the names of their public
   functions. */
static size_t first_named(const struct site_names *names) {
  for (size_t frame = 0; frame < names->stack.count; frame++) {
    size_t named = frame;
    while (named < names->stack.count && named - frame < NAMELESS_WRAPPERS && is_nameless(names, named))
      named++;
    if (named == names->stack.count || is_nameless(names, named) ||
        !is_allocation_wrapper(names->stack.at[named]->function))
      return frame;
    frame = named;
  }
  return 0;
}

static void name_stack(const struct site_names *names, size_t first, char *text, size_t bytes) {
  size_t used = 0;
  for (size_t frame = first; frame < names->stack.count && frame - first < NAMED_FRAMES && used < bytes; frame++) {
    char name[NAME_BYTES];
    name_of(names->stack.at[frame], name, sizeof name);
    used += (size_t)snprintf(text + used, bytes - used, "%s%s", frame > first ? " < " : "", name);
  }
}

static uint32_t number_function(struct site_names *names, const char *function) {
  json_t *text = symbol_text_json(function);
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
  json_t *text = symbol_text_json(name);
  json_t *site = json_pack("{sI sI so so}", "stack", (json_int_t)node, "function", (json_int_t)number, "name", text,
                           "frames", frames);
  return site && json_array_append_new(names->sites, site) == 0 ? number : UINT32_MAX;
}

static bool is_in_libc(const struct symbol *symbol) {
  static const char *const beginnings[] = {"libc.so", "libc-2.", "ld-musl-"};
  for (size_t i = 0; symbol->module && i < sizeof beginnings / sizeof *beginnings; i++)
    if (strncmp(symbol->module, beginnings[i], strlen(beginnings[i])) == 0)
      return true;
  return false;
}

/* Is it a function of the C library that starts the program or a thread? */
static bool is_start(const struct symbol *symbol) {
  static const char *const of_libc[] = {"start_thread", "clone", "clone3", "__clone", "__clone3"};
  const char *function = symbol->function;
  if (!function)
    return false;
  for (size_t i = 0; i < sizeof of_libc / sizeof *of_libc; i++)
    if (strcmp(function, of_libc[i]) == 0)
      return is_in_libc(symbol);
  return strcmp(function, "_start") == 0 || strncmp(function, "__libc_start_", 13) == 0;
}

/* Cuts names->stack behind main, else before what starts the program or the thread; at least one frame stays. */
static void cut_start(struct site_names *names) {
  size_t *count = &names->stack.count;
  for (size_t i = 0; i < *count; i++) {
    const struct symbol *symbol = names->stack.at[i];
    if (symbol->function && strcmp(symbol->function, "main") == 0)
      *count = i + 1;
    else if (i && is_start(symbol))
      *count = i;
  }
  while (*count > 1 && is_nameless(names, *count - 1) && is_in_libc(names->stack.at[*count - 1]))
    --*count;
}

/* Collects the frames of the stack that ends at the node in names->stack. False: no memory. */
static bool collect_frames(struct site_names *names, uint32_t node) {
  names->stack.count = 0;
  for (uint32_t at = node; at; at = symbols_parent(names->symbols, at)) {
    size_t count;
    const struct symbol *symbol = symbols_of(names->symbols, at, &count);
    for (size_t i = 0; i < count; i++) {
      const struct symbol **frame = vector_add(&names->stack);
      if (!frame)
        return false;
      *frame = &symbol[i];
    }
  }
  cut_start(names);
  return true;
}

/* The numbers of the frames in names->stack. NULL: no memory. */
static json_t *frame_numbers(struct site_names *names) {
  json_t *numbers = json_array();
  for (size_t i = 0; i < names->stack.count; i++) {
    uint32_t number = frame_of(names, names->stack.at[i]);
    if (number == UINT32_MAX || json_array_append_new(numbers, json_integer(number)) != 0)
      return json_decref(numbers), NULL;
  }
  return numbers;
}

uint32_t site_names_add(struct site_names *names, uint32_t node) {
  if (!node || !names->symbols)
    return add_site(names, 0, no_stack, no_stack, json_array());
  char function[NAME_BYTES], text[NAMED_FRAMES * (NAME_BYTES + 4)];
  json_t *frames = collect_frames(names, node) ? frame_numbers(names) : NULL;
  if (!frames)
    return UINT32_MAX;
  size_t first = first_named(names);
  name_of(names->stack.at[first], function, sizeof function);
  name_stack(names, first, text, sizeof text);
  return add_site(names, node, function, text, frames);
}

bool site_names_function(struct site_names *names, uint32_t node, char name[SITE_FUNCTION_BYTES]) {
  if (!collect_frames(names, node))
    return false;
  name_of(names->stack.at[first_named(names)], name, SITE_FUNCTION_BYTES);
  return true;
}

uint32_t site_names_functions(const struct site_names *names) {
  return (uint32_t)json_array_size(names->functions);
}

int site_names_json(const struct site_names *names, json_t *into) {
  int failed = json_object_set(into, "frames", names->frames) | json_object_set(into, "sites", names->sites) |
               json_object_set(into, "functions", names->functions);
  return failed ? -1 : 0;
}

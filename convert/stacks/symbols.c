/* SPDX-License-Identifier: MIT */
#include "convert/stacks/symbols.h"

#include "core/base/os.h"
#include "core/base/vector.h"
#include "core/elf/elf_file.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SYMBOLS_PER_NODE = 16 };

struct node {
  uint64_t instruction;
  uint32_t parent, modules;
  uint32_t symbols; /* how many there are; 0: not looked up yet */
  bool owner;       /* of the symbols; else another node with this instruction owns them */
  struct symbol *symbol;
};

struct module {
  struct trace_module recorded; /* texts are owned */
  bool looked;
  Dwfl *dwfl;
  Dwfl_Module *dwfl_module; /* NULL: there is no file for it */
};

struct symbols {
  VECTOR(struct node) nodes;
  VECTOR(struct module) modules;
  uint32_t *owners; /* open hash of node numbers, 0: free; NULL: not made yet */
  uint32_t owners_mask;
};

static char *copy(const char *text) {
  return text ? strdup(text) : NULL;
}

static int add_node(void *context, const struct trace_stack_node *recorded) {
  struct symbols *symbols = context;
  struct node *node = vector_add(&symbols->nodes);
  if (!node)
    return 1;
  *node = (struct node){.instruction = recorded->instruction, .parent = recorded->parent, .modules = recorded->modules};
  return 0;
}

static int add_module(void *context, const struct trace_module *recorded) {
  struct symbols *symbols = context;
  struct module *module = vector_add(&symbols->modules);
  if (!module)
    return 1;
  *module = (struct module){.looked = false};
  return trace_module_copy(&module->recorded, recorded) ? 0 : 1;
}

struct symbols *symbols_new(void) {
  unsetenv("DEBUGINFOD_URLS"); /* elfutils would contact these servers */
  return calloc(1, sizeof(struct symbols));
}

int symbols_add_module(struct symbols *symbols, const struct trace_module *module) {
  return add_module(symbols, module) ? -1 : 0;
}

int symbols_add_instruction(struct symbols *symbols, uint64_t instruction) {
  const struct trace_stack_node node = {.instruction = instruction, .modules = (uint32_t)symbols->modules.count};
  return add_node(symbols, &node) ? -1 : 0;
}

int symbols_open(struct symbols **out, struct trace_reader *reader, bool fetch, struct error *error) {
  struct symbols *symbols = *out = calloc(1, sizeof *symbols);
  if (!symbols)
    return error_set(error, trace_reader_path(reader), "out of memory");
  if (!fetch)
    unsetenv("DEBUGINFOD_URLS"); /* elfutils would contact these servers */
  int result = trace_reader_modules(reader, add_module, symbols, error);
  if (result == 0)
    result = trace_reader_stacks(reader, add_node, symbols, error);
  if (result > 0)
    error_set(error, trace_reader_path(reader), "out of memory");
  if (result == 0)
    return 0;
  symbols_close(symbols);
  *out = NULL;
  return -1;
}

void symbols_close(struct symbols *symbols) {
  if (!symbols)
    return;
  for (uint32_t i = 0; i < symbols->nodes.count; i++) {
    if (!symbols->nodes.at[i].owner)
      continue;
    for (uint32_t s = 0; s < symbols->nodes.at[i].symbols; s++) {
      free((char *)symbols->nodes.at[i].symbol[s].function);
      free((char *)symbols->nodes.at[i].symbol[s].file);
    }
    free(symbols->nodes.at[i].symbol);
  }
  for (uint32_t i = 0; i < symbols->modules.count; i++) {
    if (symbols->modules.at[i].dwfl)
      dwfl_end(symbols->modules.at[i].dwfl);
    trace_module_free_texts(&symbols->modules.at[i].recorded);
  }
  free(symbols->owners);
  free(symbols->nodes.at);
  free(symbols->modules.at);
  free(symbols);
}

uint32_t symbols_nodes(const struct symbols *symbols) {
  return (uint32_t)symbols->nodes.count;
}

uint32_t symbols_parent(const struct symbols *symbols, uint32_t node) {
  return node && node <= symbols->nodes.count ? symbols->nodes.at[node - 1].parent : 0;
}

/* FORMAT.md section 4a: the last module before the node, else the first after it. */
static struct module *module_of(struct symbols *symbols, const struct node *node) {
  for (uint32_t i = node->modules; i-- > 0;)
    if (node->instruction - symbols->modules.at[i].recorded.start <
        symbols->modules.at[i].recorded.end - symbols->modules.at[i].recorded.start)
      return &symbols->modules.at[i];
  for (uint32_t i = node->modules; i < symbols->modules.count; i++)
    if (node->instruction - symbols->modules.at[i].recorded.start <
        symbols->modules.at[i].recorded.end - symbols->modules.at[i].recorded.start)
      return &symbols->modules.at[i];
  return NULL;
}

static bool has_build_id(const char *path, const char *build_id) {
  char id[ELF_BUILD_ID_TEXT];
  struct elf_file file;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct elf_memory memory = elf_descriptor(&fd);
  bool same = elf_file_read(&memory, &file) && elf_file_build_id(fd, &file, id) && strcmp(id, build_id) == 0;
  os_close(fd);
  return same;
}

/* Finds the recorded file, if it still exists here, or the file that debug packages install for its build id. */
static bool find_file(const struct trace_module *recorded, char *path, size_t bytes) {
  if (!recorded->build_id) {
    snprintf(path, bytes, "%s", recorded->path ? recorded->path : "");
    return recorded->path && access(path, R_OK) == 0;
  }
  snprintf(path, bytes, "%s", recorded->path ? recorded->path : "");
  if (recorded->path && has_build_id(path, recorded->build_id))
    return true;
  snprintf(path, bytes, "/usr/lib/debug/.build-id/%.2s/%s.debug", recorded->build_id,
           strlen(recorded->build_id) > 2 ? recorded->build_id + 2 : "");
  return strspn(recorded->build_id, "0123456789abcdef") == strlen(recorded->build_id) &&
         has_build_id(path, recorded->build_id);
}

static void open_module(struct module *module) {
  static char *debug_path;
  static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_build_id_find_elf,
                                           .find_debuginfo = dwfl_standard_find_debuginfo,
                                           .section_address = dwfl_offline_section_address,
                                           .debuginfo_path = &debug_path};
  char path[4096 + 64];
  module->looked = true;
  elf_version(EV_CURRENT);
  if (!find_file(&module->recorded, path, sizeof path) || !(module->dwfl = dwfl_begin(&callbacks)))
    return;
  dwfl_report_begin(module->dwfl);
  module->dwfl_module = dwfl_report_elf(module->dwfl, module->recorded.name, path, -1, module->recorded.bias, true);
  dwfl_report_end(module->dwfl, NULL, NULL);
}

/* The C++ library is loaded when a name needs it: linked to, it took a fifth of a short command's CPU time. */
static char *demangled(const char *name) {
  static char *(*demangle)(const char *mangled, char *buffer, size_t *bytes, int *status);
  static bool looked; /* only once: if the library is missing, each search for it would read folders */
  if (!name || strncmp(name, "_Z", 2) != 0)
    return copy(name);
  void *library = looked ? NULL : dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
  looked = true;
  if (library)
    *(void **)&demangle = dlsym(library, "__cxa_demangle");
  char *plain = demangle ? demangle(name, NULL, NULL, NULL) : NULL;
  return plain ? plain : copy(name);
}

static char *name_of_die(Dwarf_Die *die) {
  Dwarf_Attribute attribute;
  const char *name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute));
  if (!name)
    name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_name, &attribute));
  return demangled(name);
}

static char *name_of_symbol(Dwfl_Module *module, uint64_t address) {
  GElf_Sym symbol;
  GElf_Off offset;
  const char *name = dwfl_module_addrinfo(module, address, &offset, &symbol, NULL, NULL, NULL);
  return name && (symbol.st_size == 0 || offset < symbol.st_size) ? demangled(name) : NULL;
}

static int number_of(Dwarf_Die *die, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  return dwarf_formudata(dwarf_attr(die, name, &attribute), &value) == 0 ? (int)value : 0;
}

static char *called_from(Dwarf_Die *unit, Dwarf_Die *inlined) {
  Dwarf_Files *files;
  size_t count;
  int number = number_of(inlined, DW_AT_call_file);
  if (dwarf_getsrcfiles(unit, &files, &count) != 0 || (size_t)number >= count)
    return NULL;
  return copy(dwarf_filesrc(files, (size_t)number, NULL, NULL));
}

/* The functions that are inlined at address, and the one that they are inlined into. */
static size_t look_up(Dwfl_Module *module, uint64_t address, struct symbol *symbol) {
  Dwarf_Addr bias;
  Dwarf_Die *unit = dwfl_module_addrdie(module, address, &bias), *scopes = NULL;
  int line = 0;
  Dwfl_Line *place = dwfl_module_getsrc(module, address);
  const char *file = place ? dwfl_lineinfo(place, NULL, &line, NULL, NULL, NULL) : NULL;
  symbol[0].file = copy(file);
  symbol[0].line = file ? line : 0;
  size_t count = 1;
  int depth = unit ? dwarf_getscopes(unit, address - bias, &scopes) : 0;
  for (int i = 0; i < depth && count < SYMBOLS_PER_NODE; i++) {
    int tag = dwarf_tag(&scopes[i]);
    if (tag == DW_TAG_subprogram) {
      symbol[count - 1].function = name_of_die(&scopes[i]);
      break;
    }
    if (tag != DW_TAG_inlined_subroutine)
      continue;
    symbol[count - 1].function = name_of_die(&scopes[i]);
    symbol[count].file = called_from(unit, &scopes[i]);
    symbol[count++].line = number_of(&scopes[i], DW_AT_call_line);
  }
  free(scopes);
  if (!symbol[count - 1].function)
    symbol[count - 1].function = name_of_symbol(module, address);
  return count;
}

/* Returns the node that has the symbols of node's instruction; if none has them yet, node becomes this owner. Few
   distinct instructions recur throughout a tree (about 1,300 for the 14,296 nodes of a CPython start), and looking one
   up takes 300 us. */
static struct node *owner_of(struct symbols *symbols, struct node *node, const struct module *module) {
  if (!symbols->owners) {
    uint32_t places = 64;
    while (places < 2 * (uint64_t)symbols->nodes.count && places < 1u << 31)
      places *= 2;
    symbols->owners = calloc(places, sizeof *symbols->owners);
    if (!symbols->owners)
      return node;
    symbols->owners_mask = places - 1;
  }
  uint32_t place = (uint32_t)(node->instruction * 0x9e3779b97f4a7c15u >> 32) & symbols->owners_mask;
  for (; symbols->owners[place]; place = (place + 1) & symbols->owners_mask) {
    struct node *other = &symbols->nodes.at[symbols->owners[place] - 1];
    if (other->instruction == node->instruction && module_of(symbols, other) == module)
      return other;
  }
  symbols->owners[place] = (uint32_t)(node - symbols->nodes.at) + 1;
  return node;
}

const struct symbol *symbols_of(struct symbols *symbols, uint32_t number, size_t *count) {
  static const struct symbol unknown;
  if (number == 0 || number > symbols->nodes.count) {
    *count = 1;
    return &unknown;
  }
  struct node *node = &symbols->nodes.at[number - 1];
  if (node->symbols == 0) {
    struct symbol found[SYMBOLS_PER_NODE] = {{0}};
    struct module *module = node->instruction ? module_of(symbols, node) : NULL;
    size_t found_count = 1;
    const struct node *owner = owner_of(symbols, node, module);
    if (owner->symbols) {
      node->symbol = owner->symbol;
      *count = node->symbols = owner->symbols;
      return node->symbol;
    }
    if (module && !module->looked)
      open_module(module);
    if (module && module->dwfl_module) /* less 1: a return address may be in the next line, or function */
      found_count = look_up(module->dwfl_module, node->instruction - 1, found);
    node->symbol = malloc(found_count * sizeof *node->symbol);
    if (!node->symbol) {
      *count = 1;
      return &unknown;
    }
    for (size_t i = 0; i < found_count; i++) {
      found[i].module = module ? module->recorded.name : NULL;
      found[i].offset = node->instruction - (module ? module->recorded.bias : 0);
      node->symbol[i] = found[i];
    }
    node->symbols = (uint32_t)found_count;
    node->owner = true;
  }
  *count = node->symbols;
  return node->symbol;
}

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

json_t *frames_json(struct symbols *symbols, uint32_t node, bool whole_stack) {
  json_t *frames = json_array();
  for (; symbols && node; node = whole_stack ? symbols_parent(symbols, node) : 0) {
    size_t count;
    const struct symbol *symbol = symbols_of(symbols, node, &count);
    for (size_t i = 0; i < count; i++)
      json_array_append_new(frames, symbol_json(&symbol[i]));
  }
  return frames;
}

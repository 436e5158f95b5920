/* SPDX-License-Identifier: MIT */
/* heaptrack's raw data, file versions 1 to 3, as `heaptrack --raw PROGRAM` writes it: heaptrack.PROGRAM.PID.raw.zst (or
   .raw.gz). All numbers are hexadecimal without 0x:

     v 10400 3                        heaptrack 1.4.0, file version 3
     x d /tmp/imp/prog                the program (from version 3 a string has its length before it)
     X ./prog 2                       its command line: the program's name is used if there is no x
     I 1000 5e298f                    bytes of an OS page, OS pages of the machine
     m 1 x 55a053918000 0 8b8 1000 545    module: name (x: the program), load address, (address, bytes) of its segments
     m 1 -                            the list of modules starts again
     t 55a05391941e 8                 a node of the tree of stacks, numbered from 1: instruction, parent
     + 3ae 9 55a059feb1d0             malloc(0x3ae) = 0x55a059feb1d0, called from node 9
     - 55a059feb1d0                   free(0x55a059feb1d0)
     c 3                              ms since the start: the time of what follows
     R 1c8                            OS pages resident, all kinds: left out, as a trace separates kinds
     A, S ...                         attached to a running process; suppressions of leaks: left out

   becomes malloc(942) and free(...) of one thread at those times, with the tree as STACKS and the modules as MODULES. A
   realloc is logged as `-` and `+` after the call, and can't be distinguished from a free and a malloc, so it becomes
   these; if the old address was handed out again before that, the release is moved to its place (importing.h).
   calloc and the aligned calls look like malloc. heaptrack 1.4 does not see memalign and pvalloc, nor that realloc(p,
   0) frees, nor failed calls and free(NULL): hence "calls" and "start" in `lacks`. */
#include "convert/formats/importing.h"
#include "core/base/vector.h"

#include <inttypes.h>
#include <stdlib.h>

/* A module, as last listed in the file. */
struct module {
  char *path;
  uint64_t end;
};

struct heaptrack_import {
  struct import *import;
  struct late_releases *late;
  uint64_t version; /* of the file; 0: not read yet */
  uint64_t now;     /* stamp: ns + 1 */
  uint64_t os_page_bytes;
  char program[4096];           /* path */
  VECTOR(uint32_t) nodes;       /* of the trace, by the file's number - 1 */
  struct address_map module_at; /* start address to its place in modules */
  VECTOR(struct module) modules;
  bool held; /* a `-` waits for the next line: that of a realloc is followed by its `+` */
  struct trace_event held_event;
};

static bool recognises(const char *line) {
  uint64_t number;
  return scan_word(&line, "v ") && scan_bare_hex(&line, &number) && scan_word(&line, " ") &&
         scan_bare_hex(&line, &number) && *line == '\0';
}

static int begin(struct heaptrack_import *heaptrack) {
  const struct import_facts facts = {
      .clock = "nanoseconds",
      .order = "file",
      .source = "heaptrack",
      .program = basename(heaptrack->program),
      .lacks = "start calls threads realloc names alignment failures usable_size",
      .note = "Times are those of heaptrack's clock of 10 ms. realloc is a free and a malloc here, calloc and aligned "
              "calls are mallocs; memalign, pvalloc, realloc(p, 0), failed calls and free(NULL) are not "
              "in the recording.",
      .origin_stamp = 1,
      .os_page_bytes = heaptrack->os_page_bytes};
  return import_begin(heaptrack->import, &facts);
}

static int hand_on_held(struct heaptrack_import *heaptrack, bool may_be_late) {
  if (!heaptrack->held)
    return 0;
  heaptrack->held = false;
  return late_releases_event(heaptrack->late, heaptrack->now, &heaptrack->held_event, may_be_late);
}

static int refuse_interpreted(struct heaptrack_import *heaptrack) {
  return line_reader_error(heaptrack->import->lines,
                           "interpreted heaptrack data, which has lost the addresses: record with heaptrack --raw");
}

static int take_version(struct heaptrack_import *heaptrack, const char *line) {
  uint64_t tool;
  if (!scan_word(&line, "v ") || !scan_bare_hex(&line, &tool) || !scan_word(&line, " ") ||
      !scan_bare_hex(&line, &heaptrack->version) || *line)
    return line_reader_error(heaptrack->import->lines,
                             "not heaptrack data: it must begin with a line 'v VERSION FILE'");
  if (heaptrack->version < 1 || heaptrack->version > 3)
    return line_reader_error(heaptrack->import->lines, "heaptrack file version %u, this reads 1 to 3",
                             (unsigned)heaptrack->version);
  heaptrack->now = 1;
  return 0;
}

/* Scans a name up to the next space; from version 3 its length comes first. */
static bool scan_name(const struct heaptrack_import *heaptrack, const char **at, const char **name, size_t *length) {
  uint64_t length_read;
  if (heaptrack->version >= 3) {
    if (!scan_bare_hex(at, &length_read) || !scan_word(at, " ") || strnlen(*at, length_read) < length_read)
      return false;
    *length = (size_t)length_read;
  } else {
    *length = strcspn(*at, " ");
  }
  *name = *at;
  *at += *length;
  return true;
}

static void keep_program(struct heaptrack_import *heaptrack, const char *path, size_t length) {
  if (length < sizeof heaptrack->program) {
    memcpy(heaptrack->program, path, length);
    heaptrack->program[length] = '\0';
  }
}

/* All modules are listed again whenever one is loaded or unloaded; the trace gets each once. */
static int keep_module(struct heaptrack_import *heaptrack, struct trace_module *module) {
  struct import *import = heaptrack->import;
  struct address_entry *entry = address_map_find(&heaptrack->module_at, module->start);
  struct module *known = entry->address ? &heaptrack->modules.at[entry->slot] : NULL;
  if (known && known->end == module->end && strcmp(known->path, module->path) == 0)
    return 0;
  if (!known) {
    known = vector_add(&heaptrack->modules);
    if (!known)
      return import_no_memory(import);
    *known = (struct module){NULL, 0};
    uint32_t index = (uint32_t)(heaptrack->modules.count - 1);
    if (!address_map_add(&heaptrack->module_at, entry, module->start, index, false))
      return import_no_memory(import);
  }
  char *path = strdup(module->path);
  if (!path)
    return import_no_memory(import);
  free(known->path);
  *known = (struct module){path, module->end};
  module->name = basename(module->path);
  return trace_writer_module(import->writer, module);
}

static int take_module(struct heaptrack_import *heaptrack, const char *line) {
  const char *name, *at = line + 2;
  char path[4096];
  size_t length;
  uint64_t offset, bytes;
  struct trace_module module = {.path = path, .start = UINT64_MAX};
  if (!scan_name(heaptrack, &at, &name, &length) || length >= sizeof path)
    return import_bad_line(heaptrack->import, "heaptrack's modules", line);
  if (length == 1 && *name == '-' && *at == '\0')
    return 0; /* modules that are still loaded are listed again */
  if (!scan_word(&at, " ") || !scan_bare_hex(&at, &module.bias))
    return import_bad_line(heaptrack->import, "heaptrack's modules", line);
  while (*at) {
    if (!scan_word(&at, " ") || !scan_bare_hex(&at, &offset) || !scan_word(&at, " ") || !scan_bare_hex(&at, &bytes))
      return import_bad_line(heaptrack->import, "heaptrack's modules", line);
    uint64_t start = module.bias + offset;
    module.start = start < module.start ? start : module.start;
    module.end = start + bytes > module.end ? start + bytes : module.end;
  }
  memcpy(path, name, length);
  path[length] = '\0';
  if (strcmp(path, "x") == 0 && heaptrack->program[0])
    module.path = heaptrack->program;
  return module.start && module.start < module.end ? keep_module(heaptrack, &module) : 0;
}

static uint32_t node_of(const struct heaptrack_import *heaptrack, uint64_t stack) {
  return stack ? heaptrack->nodes.at[stack - 1] : 0;
}

static int take_node(struct heaptrack_import *heaptrack, const char *line) {
  struct import *import = heaptrack->import;
  uint64_t instruction, parent;
  const char *at = line + 2;
  if (!scan_bare_hex(&at, &instruction) || !scan_word(&at, " ") || !scan_bare_hex(&at, &parent) || *at)
    return import_bad_line(import, "heaptrack's stacks", line);
  if (parent > heaptrack->nodes.count)
    return line_reader_error(import->lines, "stack %" PRIx64 " is called by %" PRIx64 ", which is not defined yet",
                             heaptrack->nodes.count + 1, parent);
  uint32_t *node = vector_add(&heaptrack->nodes);
  if (!node)
    return import_no_memory(import);
  *node = trace_writer_stack_node(import->writer, node_of(heaptrack, parent), instruction);
  return 0;
}

static int take_acquire(struct heaptrack_import *heaptrack, const char *line) {
  uint64_t size_bytes, stack, address;
  const char *at = line + 2;
  if (!scan_bare_hex(&at, &size_bytes))
    return import_bad_line(heaptrack->import, "heaptrack data", line);
  if (*at == '\0')
    return refuse_interpreted(heaptrack); /* "+ 5": the number of an allocation's description */
  if (!scan_word(&at, " ") || !scan_bare_hex(&at, &stack) || !scan_word(&at, " ") || !scan_bare_hex(&at, &address) ||
      *at || !address)
    return import_bad_line(heaptrack->import, "heaptrack data", line);
  if (stack > heaptrack->nodes.count)
    return line_reader_error(heaptrack->import->lines, "stack %" PRIx64 " is not defined yet", stack);
  if (hand_on_held(heaptrack, true) != 0)
    return -1;
  struct trace_event event = event_of_acquire(CALL_malloc, address, size_bytes, 0);
  event.stack = node_of(heaptrack, stack);
  return late_releases_event(heaptrack->late, heaptrack->now, &event, false);
}

static int take_release(struct heaptrack_import *heaptrack, const char *line) {
  uint64_t address;
  const char *at = line + 2;
  if (!scan_bare_hex(&at, &address) || *at || !address)
    return import_bad_line(heaptrack->import, "heaptrack data", line);
  if (hand_on_held(heaptrack, false) != 0)
    return -1;
  heaptrack->held = true;
  heaptrack->held_event = event_of_release(CALL_free, address);
  return 0;
}

static int take_time(struct heaptrack_import *heaptrack, const char *line) {
  uint64_t ms;
  const char *at = line + 2;
  if (!scan_bare_hex(&at, &ms) || *at || ms > UINT64_MAX / 2000000)
    return import_bad_line(heaptrack->import, "heaptrack data", line);
  if (hand_on_held(heaptrack, false) != 0)
    return -1;
  heaptrack->now = ms * 1000000 + 1;
  return 0;
}

static int take_page_bytes(struct heaptrack_import *heaptrack, const char *line) {
  uint64_t os_pages;
  const char *at = line + 2;
  if (!scan_bare_hex(&at, &heaptrack->os_page_bytes) || !scan_word(&at, " ") || !scan_bare_hex(&at, &os_pages) || *at)
    return import_bad_line(heaptrack->import, "heaptrack data", line);
  return 0;
}

static int take_program(struct heaptrack_import *heaptrack, const char *line) {
  const char *name, *at = line + 2;
  size_t length;
  if (!scan_name(heaptrack, &at, &name, &length) || (heaptrack->version >= 3 && *at))
    return import_bad_line(heaptrack->import, "heaptrack data", line);
  keep_program(heaptrack, name, length);
  return 0;
}

static bool is_header(char kind) {
  return kind == 'x' || kind == 'X' || kind == 'I' || kind == 'S' || kind == 'A';
}

static int take_line(void *context, const char *line) {
  struct heaptrack_import *heaptrack = context;
  char kind = line[0];
  if (!heaptrack->version)
    return take_version(heaptrack, line);
  if (kind == '\0' || (line[1] != ' ' && line[1] != '\0'))
    return import_bad_line(heaptrack->import, "heaptrack data", line);
  if (!is_header(kind) && !heaptrack->import->writer && begin(heaptrack) != 0)
    return -1;
  if (line[1] == '\0' && kind != 'A' && kind != 'X' && kind != 'S')
    return import_bad_line(heaptrack->import, "heaptrack data", line);
  switch (kind) {
  case '+':
    return take_acquire(heaptrack, line);
  case '-':
    return take_release(heaptrack, line);
  case 't':
    return take_node(heaptrack, line);
  case 'm':
    return take_module(heaptrack, line);
  case 'c':
    return take_time(heaptrack, line);
  case 'I':
    return take_page_bytes(heaptrack, line);
  case 'x':
    return take_program(heaptrack, line);
  case 's':
  case 'i':
  case 'a':
    return refuse_interpreted(heaptrack);
  case 'X':
    if (!heaptrack->program[0] && line[1]) /* before version 3 there is no `x`; arguments are left out */
      keep_program(heaptrack, line + 2, strcspn(line + 2, " "));
    return 0;
  case 'R':
  case 'A':
  case 'S':
    return 0;
  default:
    return import_bad_line(heaptrack->import, "heaptrack data", line);
  }
}

static int finish(struct heaptrack_import *heaptrack) {
  struct import *import = heaptrack->import;
  if (!heaptrack->version)
    return error_set(import->error, import->path, "not heaptrack data: it is empty");
  if (!import->writer && begin(heaptrack) != 0)
    return -1;
  return hand_on_held(heaptrack, false) != 0 ? -1 : late_releases_finish(heaptrack->late);
}

static void release_modules(struct heaptrack_import *heaptrack) {
  for (uint32_t i = 0; i < heaptrack->modules.count; i++)
    free(heaptrack->modules.at[i].path);
  free(heaptrack->modules.at);
  address_map_free(&heaptrack->module_at);
}

static int run(struct import *import) {
  struct heaptrack_import heaptrack = {.import = import};
  if (!address_map_init(&heaptrack.module_at))
    return import_no_memory(import);
  heaptrack.late = late_releases_new(import);
  int result = heaptrack.late ? import_lines(import, take_line, &heaptrack) : -1;
  if (result == 0)
    result = finish(&heaptrack);
  late_releases_free(heaptrack.late);
  release_modules(&heaptrack);
  free(heaptrack.nodes.at);
  return result;
}

const struct import_format import_format_heaptrack = {.recognises_line = recognises, .run = run};

/* SPDX-License-Identifier: MIT */
/* heaptrack's data, file versions 1 to 3, raw or interpreted. Raw, as `heaptrack --raw PROGRAM` writes it:
   heaptrack.PROGRAM.PID.raw.zst (or .raw.gz). All numbers are hexadecimal without 0x:

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
   these; if the old address was handed out again before that, the release is moved to its place (late_releases.h).
   calloc and the aligned calls look like malloc. heaptrack 1.4 does not see memalign and pvalloc, nor that realloc(p,
   0) frees, nor failed calls and free(NULL): hence "calls" and "start" in `lacks`.

   Interpreted, as heaptrack writes it without --raw (heaptrack.PROGRAM.PID.zst). Modules are names without addresses:

     s 7 libc.so                      a string, numbered from 1: a module, function or file
     i 7f5115613f78 2b 62 63 1f       an instruction, numbered from 1: address, module; then function, file and line,
   for each function inlined there: left out, as a trace has no names of frames t 1 0                            a node
   of the tree of stacks: the instruction's number, parent a 3ae 9                          a kind of object, numbered
   from 0: its size, and the stack of its acquire
     + 0                              an object of that kind is acquired
     - 0                              one is released: which one, of those alive of the kind, is not in the file
     # strings: 7                     comment, after an empty line

   An object gets a made-up address, 16 times its number + 16, and the release ends the kind's youngest object (as
   heaptrack counts temporary objects). Sizes, stacks, order and live bytes are those of the recording; which of several
   like objects ended is not: hence "addresses" and "lifetimes" in `lacks`. */
#include "convert/foreign/format.h"
#include "convert/formats/late_releases.h"
#include "core/base/vector.h"

#include <inttypes.h>
#include <stdlib.h>

/* A module, as last listed in the file. */
struct module {
  char *path;
  uint64_t end;
};

/* Objects of one size, acquired at one stack (interpreted data). */
struct kind {
  uint64_t size_bytes;
  uint32_t node;
  uint32_t youngest; /* number of its object acquired last that lives; NO_OBJECT: none */
};

#define NO_OBJECT UINT32_MAX

struct interpreted {
  bool is;
  VECTOR(uint64_t) instructions; /* by the file's number - 1 */
  VECTOR(struct kind) kinds;
  VECTOR(uint32_t) older; /* by object: the next older one of its kind; of a free number: the next free one */
  uint32_t unused;        /* the first free number; NO_OBJECT: none */
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
  struct interpreted interpreted;
};

static bool recognises(const char *line) {
  uint64_t number;
  return scan_word(&line, "v ") && scan_bare_hex(&line, &number) && scan_word(&line, " ") &&
         scan_bare_hex(&line, &number) && *line == '\0';
}

static int begin(struct heaptrack_import *heaptrack) {
#define LACKS "start calls threads realloc names alignment failures usable_size"
#define NOTE                                                                                                           \
  "Times are those of heaptrack's clock of 10 ms. realloc is a free and a malloc here, calloc and aligned calls are "  \
  "mallocs; memalign, pvalloc, realloc(p, 0), failed calls and free(NULL) are not in the recording."
  bool interpreted = heaptrack->interpreted.is;
  const struct import_facts facts = {
      .clock = "nanoseconds",
      .order = "file",
      .source = interpreted ? "heaptrack, interpreted" : "heaptrack",
      .program = basename(heaptrack->program),
      .lacks = interpreted ? LACKS " addresses lifetimes" : LACKS,
      .note = interpreted ? NOTE " Addresses are made up, and so are lifetimes: the file does not say which of the "
                                 "objects of one size and stack is freed, so the youngest is. Sizes, stacks, order and "
                                 "live bytes are as recorded. Names of functions are left out. heaptrack --raw keeps "
                                 "all of that."
                          : NOTE,
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
  if (heaptrack->interpreted.is) {
    if (instruction == 0 || instruction > heaptrack->interpreted.instructions.count)
      return line_reader_error(import->lines, "instruction %" PRIx64 " is not defined yet", instruction);
    instruction = heaptrack->interpreted.instructions.at[instruction - 1];
  }
  uint32_t *node = vector_add(&heaptrack->nodes);
  if (!node)
    return import_no_memory(import);
  *node = trace_writer_stack_node(import->writer, node_of(heaptrack, parent), instruction);
  return 0;
}

/* ADDRESS MODULE, then numbers that name functions, files and lines. */
static int take_instruction(struct heaptrack_import *heaptrack, const char *line) {
  uint64_t address, number;
  const char *at = line + 2;
  bool good = scan_bare_hex(&at, &address);
  while (good && *at)
    good = scan_word(&at, " ") && scan_bare_hex(&at, &number);
  if (!good)
    return import_bad_line(heaptrack->import, "heaptrack's instructions", line);
  uint64_t *added = vector_add(&heaptrack->interpreted.instructions);
  if (!added)
    return import_no_memory(heaptrack->import);
  *added = address;
  return 0;
}

static int take_kind(struct heaptrack_import *heaptrack, const char *line) {
  uint64_t size_bytes, stack;
  const char *at = line + 2;
  if (!scan_bare_hex(&at, &size_bytes) || !scan_word(&at, " ") || !scan_bare_hex(&at, &stack) || *at)
    return import_bad_line(heaptrack->import, "heaptrack data", line);
  if (stack > heaptrack->nodes.count)
    return line_reader_error(heaptrack->import->lines, "stack %" PRIx64 " is not defined yet", stack);
  struct kind *kind = vector_add(&heaptrack->interpreted.kinds);
  if (!kind)
    return import_no_memory(heaptrack->import);
  *kind = (struct kind){size_bytes, node_of(heaptrack, stack), NO_OBJECT};
  return 0;
}

/* NULL with error. */
static struct kind *kind_of(struct heaptrack_import *heaptrack, const char *line) {
  uint64_t number;
  const char *at = line + 2;
  if (!scan_bare_hex(&at, &number) || *at)
    import_bad_line(heaptrack->import, "heaptrack data", line);
  else if (number >= heaptrack->interpreted.kinds.count)
    line_reader_error(heaptrack->import->lines, "allocation %" PRIx64 " is not defined yet", number);
  else
    return &heaptrack->interpreted.kinds.at[number];
  return NULL;
}

static int take_acquire_of_kind(struct heaptrack_import *heaptrack, const char *line) {
  struct interpreted *interpreted = &heaptrack->interpreted;
  struct kind *kind = kind_of(heaptrack, line);
  if (!kind)
    return -1;
  uint32_t object = interpreted->unused;
  if (object == NO_OBJECT) {
    object = (uint32_t)interpreted->older.count;
    if (object == NO_OBJECT || !vector_add(&interpreted->older))
      return import_no_memory(heaptrack->import);
  } else {
    interpreted->unused = interpreted->older.at[object];
  }
  interpreted->older.at[object] = kind->youngest;
  kind->youngest = object;
  struct trace_event event = event_of_acquire(CALL_malloc, 16 * ((uint64_t)object + 1), kind->size_bytes, 0);
  event.stack = kind->node;
  return import_only_thread(heaptrack->import, heaptrack->now, &event);
}

static int take_release_of_kind(struct heaptrack_import *heaptrack, const char *line) {
  struct interpreted *interpreted = &heaptrack->interpreted;
  struct kind *kind = kind_of(heaptrack, line);
  if (!kind)
    return -1;
  uint32_t object = kind->youngest;
  if (object == NO_OBJECT)
    return line_reader_error(heaptrack->import->lines, "an object is freed of which none lives: '%.60s'", line);
  kind->youngest = interpreted->older.at[object];
  interpreted->older.at[object] = interpreted->unused;
  interpreted->unused = object;
  struct trace_event event = event_of_release(CALL_free, 16 * ((uint64_t)object + 1));
  return import_only_thread(heaptrack->import, heaptrack->now, &event);
}

static int take_acquire(struct heaptrack_import *heaptrack, const char *line) {
  uint64_t size_bytes, stack, address;
  const char *at = line + 2;
  if (!scan_bare_hex(&at, &size_bytes) || !scan_word(&at, " ") || !scan_bare_hex(&at, &stack) || !scan_word(&at, " ") ||
      !scan_bare_hex(&at, &address) || *at || !address)
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
  return kind == 'x' || kind == 'X' || kind == 'I' || kind == 'S' || kind == 'A' || kind == '#';
}

/* Interpreted data begin with strings and instructions, before their first stack. */
static bool is_interpreted(char kind) {
  return kind == 's' || kind == 'i' || kind == 'a';
}

static __attribute__((noinline)) int take_interpreted(struct heaptrack_import *heaptrack, const char *line) {
  switch (line[0]) {
  case '+':
    return take_acquire_of_kind(heaptrack, line);
  case '-':
    return take_release_of_kind(heaptrack, line);
  case 'i':
    return take_instruction(heaptrack, line);
  case 'a':
    return take_kind(heaptrack, line);
  default:
    return 0; /* a string */
  }
}

static int take_line(void *context, const char *line) {
  struct heaptrack_import *heaptrack = context;
  char kind = line[0];
  if (!heaptrack->version)
    return take_version(heaptrack, line);
  if (kind == '\0' || (line[1] != ' ' && line[1] != '\0')) /* interpreted data have an empty line before comments */
    return kind == '\0' && heaptrack->interpreted.is ? 0 : import_bad_line(heaptrack->import, "heaptrack data", line);
  if (!heaptrack->import->writer && !is_header(kind)) {
    heaptrack->interpreted.is = is_interpreted(kind);
    if (begin(heaptrack) != 0)
      return -1;
  }
  if (line[1] == '\0' && kind != 'A' && kind != 'X' && kind != 'S' && kind != '#')
    return import_bad_line(heaptrack->import, "heaptrack data", line);
  if (heaptrack->interpreted.is && (is_interpreted(kind) || kind == '+' || kind == '-'))
    return take_interpreted(heaptrack, line);
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
  case 'X':
    if (!heaptrack->program[0] && line[1]) /* before version 3 there is no `x`; arguments are left out */
      keep_program(heaptrack, line + 2, strcspn(line + 2, " "));
    return 0;
  case 'R':
  case 'A':
  case 'S':
  case '#':
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
  struct heaptrack_import heaptrack = {.import = import, .interpreted.unused = NO_OBJECT};
  if (!address_map_init(&heaptrack.module_at))
    return import_no_memory(import);
  heaptrack.late = late_releases_new(import);
  int result = heaptrack.late ? import_lines(import, take_line, &heaptrack) : -1;
  if (result == 0)
    result = finish(&heaptrack);
  late_releases_free(heaptrack.late);
  release_modules(&heaptrack);
  free(heaptrack.nodes.at);
  free(heaptrack.interpreted.instructions.at);
  free(heaptrack.interpreted.kinds.at);
  free(heaptrack.interpreted.older.at);
  return result;
}

static const struct import_format import_format = {.recognises_line = recognises, .run = run};

REGISTER_FORMAT(.name = "heaptrack",
                .description = "heaptrack's data, raw or interpreted (convert/formats/heaptrack.c)",
                .import = &import_format);

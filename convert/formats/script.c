/* SPDX-License-Identifier: MIT */
/* Stanford CS107's heap allocator assignment, .script:

     # a comment, or an empty line
     a 1 50       malloc(50), called object 1
     r 1 99       realloc of object 1 to 99 bytes
     f 1          free of object 1

   becomes malloc(50) = 0x20, realloc(0x20, 99) = 0x20, free(0x20): the address of object n is 16 (n + 1), which only
   distinguishes objects ("addresses" in `lacks`). The harness begins with null pointers, and a free and a realloc to 0
   bytes leave one: so `r` of an id without an object is realloc(NULL), and `f` of it free(NULL). Memory is also a bit
   per id up to the highest. */
#include "convert/foreign/format.h"
#include "core/base/vector.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MAX_SCRIPT_IDS = 1 << 30 };

struct script_import {
  struct import *import;
  VECTOR(uint64_t) pointers; /* a bit per id: the harness's pointer is not null */
};

static void skip_blanks(const char **at) {
  while (**at == ' ' || **at == '\t')
    ++*at;
}

/* "LETTER ID", and "SIZE" after a and r. */
static bool scan_request(const char *at, char *letter, uint64_t *id, uint64_t *size_bytes) {
  skip_blanks(&at);
  *letter = *at;
  if ((*letter != 'a' && *letter != 'r' && *letter != 'f') || (at[1] != ' ' && at[1] != '\t'))
    return false;
  at++;
  skip_blanks(&at);
  if (!scan_decimal(&at, id))
    return false;
  skip_blanks(&at);
  *size_bytes = 0;
  if (*letter != 'f' && !scan_decimal(&at, size_bytes))
    return false;
  skip_blanks(&at);
  return *at == '\0';
}

static bool recognises(const char *line) {
  char letter;
  uint64_t id, size_bytes;
  return scan_request(line, &letter, &id, &size_bytes);
}

static int begin(struct import *import) {
  static const struct import_facts facts = {.clock = "ordinal",
                                            .order = "file",
                                            .source = "CS107 .script",
                                            .lacks = "threads times names alignment addresses failures usable_size",
                                            .note = "Addresses are made up: 16 times an object's number plus one."};
  return import_begin(import, &facts);
}

static int take_request(struct script_import *script, const char *line) {
  char letter;
  uint64_t id, size_bytes;
  if (!scan_request(line, &letter, &id, &size_bytes))
    return import_bad_line(script->import, "CS107's .script", line);
  if (id >= MAX_SCRIPT_IDS)
    return line_reader_error(script->import->lines, "id %" PRIu64 ", the limit is %d", id, MAX_SCRIPT_IDS);
  uint64_t *word = vector_reach(&script->pointers, id / 64), bit = UINT64_C(1) << id % 64;
  if (!word)
    return import_no_memory(script->import);
  uint64_t address = 16 * (id + 1), from = *word & bit ? address : 0;
  bool frees = letter == 'f' || (letter == 'r' && size_bytes == 0);
  *word = frees ? *word & ~bit : *word | bit;
  struct trace_event event = letter == 'f'   ? event_of_release(CALL_free, from)
                             : letter == 'a' ? event_of_acquire(CALL_malloc, address, size_bytes, 0)
                                             : event_of_realloc(CALL_realloc, from, frees ? 0 : address, size_bytes, 0);
  return import_only_thread(script->import, line_reader_number(script->import->lines), &event);
}

static int take_line(void *context, const char *line) {
  struct script_import *script = context;
  if (!script->import->writer && begin(script->import) != 0)
    return -1;
  const char *at = line;
  skip_blanks(&at);
  return *at == '\0' || *at == '#' ? 0 : take_request(script, line);
}

static int run(struct import *import) {
  struct script_import script = {.import = import};
  int result = import_lines(import, take_line, &script);
  free(script.pointers.at);
  return result;
}

static const struct import_format import_format = {
    .recognises_line = recognises, .run = run, .without_calls = "not CS107's .script: it is empty"};

REGISTER_FORMAT(.name = "script", .description = "CS107's heap allocator scripts, .script (convert/formats/script.c)",
                .import = &import_format);

/* SPDX-License-Identifier: MIT */
/* wee_alloc's traces, as its trace-malloc-free makes them of what valgrind prints:

     Alloc(552),      malloc(552): object 0
     Free(0),         free of object 0

   becomes malloc(552) = 0x10, free(0x10): the address of object n is 16 (n + 1), which only distinguishes objects
   ("addresses" in `lacks`). A Free of an object that is not alive means nothing in the format: left out. calloc and
   aligned calls are malloc, realloc is free and malloc. Memory is also a bit per object. */
#include "convert/foreign/format.h"
#include "core/base/vector.h"

#include <inttypes.h>
#include <stdlib.h>

struct wee_import {
  struct import *import;
  uint64_t objects, no_ops;
  VECTOR(uint64_t) alive; /* a bit per object */
};

static bool scan_operation(const char *at, bool *allocates, uint64_t *number) {
  *allocates = scan_word(&at, "Alloc(");
  if ((!*allocates && !scan_word(&at, "Free(")) || !scan_decimal(&at, number) || !scan_word(&at, ")"))
    return false;
  scan_word(&at, ",");
  return *at == '\0';
}

static bool recognises(const char *line) {
  bool allocates;
  uint64_t number;
  return scan_operation(line, &allocates, &number);
}

static int begin(struct import *import) {
  static const struct import_facts facts = {
      .clock = "ordinal",
      .order = "file",
      .source = "wee_alloc trace",
      .lacks = "threads times names realloc alignment addresses failures usable_size",
      .note =
          "Addresses are made up: 16 times an object's number plus one. realloc is a free and a malloc here, calloc "
          "and aligned calls are mallocs."};
  return import_begin(import, &facts);
}

static int take_operation(struct wee_import *wee, const char *line) {
  bool allocates;
  uint64_t number;
  if (!scan_operation(line, &allocates, &number))
    return import_bad_line(wee->import, "wee_alloc's traces", line);
  uint64_t object = allocates ? wee->objects++ : number, bit = UINT64_C(1) << object % 64;
  if (object >= wee->objects || !(allocates || wee->alive.at[object / 64] & bit)) {
    wee->no_ops++;
    return 0;
  }
  uint64_t *word = vector_reach(&wee->alive, object / 64);
  if (!word)
    return import_no_memory(wee->import);
  *word ^= bit;
  uint64_t address = 16 * (object + 1);
  struct trace_event event =
      allocates ? event_of_acquire(CALL_malloc, address, number, 0) : event_of_release(CALL_free, address);
  return import_only_thread(wee->import, line_reader_number(wee->import->lines), &event);
}

static int take_line(void *context, const char *line) {
  struct wee_import *wee = context;
  if (!wee->import->writer && begin(wee->import) != 0)
    return -1;
  return *line ? take_operation(wee, line) : 0;
}

static int run(struct import *import) {
  struct wee_import wee = {.import = import};
  int result = import_lines(import, take_line, &wee);
  if (result == 0 && wee.no_ops)
    import_note(import, "%" PRIu64 " frees of objects that are not alive left out", wee.no_ops);
  free(wee.alive.at);
  return result;
}

static const struct import_format import_format = {
    .recognises_line = recognises, .run = run, .without_calls = "not a trace of wee_alloc: it is empty"};

REGISTER_FORMAT(.name = "wee_alloc", .description = "wee_alloc's traces (convert/formats/wee_alloc.c)",
                .import = &import_format);

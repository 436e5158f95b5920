/* SPDX-License-Identifier: MIT */
/* CS:APP malloc lab, .rep:

     20000         suggested heap bytes: not used
     3             number of ids: 0 to 2
     5             number of requests
     1             weight: not used
     a 0 512       malloc(512), called object 0
     a 1 128
     r 0 640       realloc of object 0 to 640 bytes
     f 1
     f 0

   becomes malloc(512) = 0x10, malloc(128) = 0x20, realloc(0x10, 640) = 0x10, free(0x20), free(0x10): the address of
   object n is 16 (n + 1), which only distinguishes objects ("addresses" in `lacks`). The drivers begin with null
   pointers, and a realloc to 0 bytes frees and leaves one: so `r` of an id without an object before is realloc(NULL),
   and `f` of it, or `f -1`, free(NULL). `w 0 512` writes into object 0: a request, but no call; left out. Memory is
   also a bit per id that the header claims. Some labs' files have only the second and third of the four numbers. */
#include "convert/formats/formats.h"
#include "convert/formats/importing.h"
#include "core/base/address_map.h"

#include <inttypes.h>
#include <stdlib.h>

enum { HEADER_LINES = 4, SHORT_HEADER_LINES = 2, MAX_REP_IDS = 1 << 30 };

struct rep_import {
  struct import *import;
  uint64_t header[HEADER_LINES];
  unsigned header_lines;
  uint64_t requests, writes;
  uint64_t *pointers; /* a bit per id: the driver's pointer is not null */
};

static bool is_request(char kind) {
  return kind == 'a' || kind == 'r' || kind == 'f' || kind == 'w';
}

/* Four lines of one number each, at the very beginning, or two before a request. */
static bool recognises(const struct import_sample *start) {
  size_t at = 0;
  for (int line = 0; line < HEADER_LINES; line++) {
    if (line == SHORT_HEADER_LINES && at < start->count && is_request((char)start->bytes[at]))
      return true;
    size_t digits = 0;
    for (; at < start->count && start->bytes[at] >= '0' && start->bytes[at] <= '9'; at++)
      digits++;
    at += at < start->count && start->bytes[at] == '\r';
    if (!digits || at >= start->count || start->bytes[at++] != '\n')
      return false;
  }
  return true;
}

/* The header is complete. */
static int end_header(struct rep_import *rep) {
  static const struct import_facts facts = {.clock = "ordinal",
                                            .order = "file",
                                            .source = "malloc lab .rep",
                                            .lacks = "threads times names alignment addresses failures usable_size",
                                            .note = "Addresses are made up: 16 times an object's number plus one."};
  if (rep->header[1] > MAX_REP_IDS)
    return line_reader_error(rep->import->lines, "the header claims %" PRIu64 " ids, the limit is %d", rep->header[1],
                             MAX_REP_IDS);
  rep->pointers = calloc(rep->header[1] / 64 + 1, sizeof *rep->pointers);
  return rep->pointers ? import_begin(rep->import, &facts) : import_no_memory(rep->import);
}

static int take_header(struct rep_import *rep, const char *line) {
  const char *at = line;
  if (!scan_decimal(&at, &rep->header[rep->header_lines]) || *at)
    return line_reader_error(rep->import->lines,
                             "a .rep file begins with four lines of one number each, this is '%.60s'", line);
  return ++rep->header_lines < HEADER_LINES ? 0 : end_header(rep);
}

/* The driver's pointer of that id becomes null, or not. Returns whether it was null before. */
static bool set_pointer(struct rep_import *rep, uint64_t id, bool null) {
  uint64_t *word = &rep->pointers[id / 64], bit = UINT64_C(1) << id % 64;
  bool was_null = !(*word & bit);
  *word = null ? *word & ~bit : *word | bit;
  return was_null;
}

static struct trace_event event_of(struct rep_import *rep, char kind, uint64_t id, uint64_t size_bytes) {
  uint64_t address = 16 * (id + 1);
  if (kind == 'f') /* its pointer stays as it is: a second free of it is a double free */
    return event_of_release(CALL_free, rep->pointers[id / 64] >> id % 64 & 1 ? address : 0);
  if (kind == 'a') {
    set_pointer(rep, id, false);
    return event_of_acquire(CALL_malloc, address, size_bytes, 0);
  }
  bool null = set_pointer(rep, id, size_bytes == 0);
  return event_of_realloc(CALL_realloc, null ? 0 : address, size_bytes ? address : 0, size_bytes, 0);
}

/* Some files have spaces at a line's end. */
static bool ends(const char *at) {
  while (*at == ' ')
    at++;
  return *at == '\0';
}

static int take_request(struct rep_import *rep, const char *line) {
  const char *at = line + 1;
  uint64_t id = 0, size_bytes = 0;
  bool sized = line[0] == 'a' || line[0] == 'r' || line[0] == 'w', null = line[0] == 'f' && strcmp(line, "f -1") == 0;
  if ((!sized && line[0] != 'f') ||
      (!null && (*at++ != ' ' || !scan_decimal(&at, &id) ||
                 (sized && (*at++ != ' ' || !scan_decimal(&at, &size_bytes))) || !ends(at))))
    return import_bad_line(rep->import, ".rep", line);
  if (!null && id >= rep->header[1])
    return line_reader_error(rep->import->lines, "id %" PRIu64 ", the header claims %" PRIu64 " ids", id,
                             rep->header[1]);
  if (++rep->requests > rep->header[2])
    return line_reader_error(rep->import->lines, "more than the %" PRIu64 " requests that the header claims",
                             rep->header[2]);
  if (line[0] == 'w') {
    rep->writes++;
    return 0;
  }
  struct trace_event event = null ? event_of_release(CALL_free, 0) : event_of(rep, line[0], id, size_bytes);
  return import_only_thread(rep->import, line_reader_number(rep->import->lines), &event);
}

static int take_line(void *context, const char *line) {
  struct rep_import *rep = context;
  if (rep->header_lines == SHORT_HEADER_LINES && is_request(line[0])) {
    rep->header[2] = rep->header[1];
    rep->header[1] = rep->header[0];
    rep->header_lines = HEADER_LINES;
    if (end_header(rep) != 0)
      return -1;
  }
  if (rep->header_lines < HEADER_LINES)
    return take_header(rep, line);
  return *line ? take_request(rep, line) : 0;
}

static int finish(const struct rep_import *rep) {
  struct import *import = rep->import;
  if (rep->header_lines < HEADER_LINES)
    return error_set(import->error, import->path, "ends inside the header of a .rep file");
  if (rep->requests != rep->header[2])
    return error_set(import->error, import->path, "ends after %" PRIu64 " of %" PRIu64 " requests", rep->requests,
                     rep->header[2]);
  if (rep->writes)
    import_note(import, "%" PRIu64 " writes into objects (w) left out: they are no calls", rep->writes);
  return 0;
}

static int run_import(struct import *import) {
  struct rep_import rep = {.import = import};
  int result = import_lines(import, take_line, &rep);
  if (result == 0)
    result = finish(&rep);
  free(rep.pointers);
  return result;
}

static const struct import_format import_format = {.recognises_bytes = recognises, .run = run_import};

REGISTER_FORMAT(.name = "rep", .description = "CS:APP malloc lab's .rep (convert/formats/rep.c)",
                .import = &import_format);

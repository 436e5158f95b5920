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
   object n is 16 (n + 1), which only distinguishes objects ("addresses" in `lacks`). `f -1` is free(NULL), a realloc to
   0 bytes frees. */
#include "convert/formats/reading/importing.h"

#include <inttypes.h>

enum { HEADER_LINES = 4, MAX_REP_IDS = 1 << 30 };

struct rep_import {
  struct import *import;
  uint64_t header[HEADER_LINES];
  unsigned header_lines;
  uint64_t requests;
};

/* Four lines of one number each, at the very beginning. */
static bool recognises(const struct import_sample *start) {
  size_t at = 0;
  for (int line = 0; line < HEADER_LINES; line++) {
    size_t digits = 0;
    for (; at < start->count && start->bytes[at] >= '0' && start->bytes[at] <= '9'; at++)
      digits++;
    at += at < start->count && start->bytes[at] == '\r';
    if (!digits || at >= start->count || start->bytes[at++] != '\n')
      return false;
  }
  return true;
}

static int take_header(struct rep_import *rep, const char *line) {
  static const struct import_facts facts = {.clock = "ordinal",
                                            .order = "file",
                                            .source = "malloc lab .rep",
                                            .lacks = "threads times names alignment addresses failures usable_size",
                                            .note = "Addresses are made up: 16 times an object's number plus one."};
  const char *at = line;
  if (!scan_decimal(&at, &rep->header[rep->header_lines]) || *at)
    return line_reader_error(rep->import->lines,
                             "a .rep file begins with four lines of one number each, this is '%.60s'", line);
  if (++rep->header_lines < HEADER_LINES)
    return 0;
  if (rep->header[1] > MAX_REP_IDS)
    return line_reader_error(rep->import->lines, "the header claims %" PRIu64 " ids, the limit is %d", rep->header[1],
                             MAX_REP_IDS);
  return import_begin(rep->import, &facts);
}

static int take_request(struct rep_import *rep, const char *line) {
  const char *at = line + 1;
  uint64_t id = 0, size_bytes = 0;
  bool sized = line[0] == 'a' || line[0] == 'r', null = line[0] == 'f' && strcmp(line, "f -1") == 0;
  if ((!sized && line[0] != 'f') ||
      (!null && (!scan_word(&at, " ") || !scan_decimal(&at, &id) ||
                 (sized && (!scan_word(&at, " ") || !scan_decimal(&at, &size_bytes))) || *at)))
    return import_bad_line(rep->import, ".rep", line);
  if (!null && id >= rep->header[1])
    return line_reader_error(rep->import->lines, "id %" PRIu64 ", the header claims %" PRIu64 " ids", id,
                             rep->header[1]);
  if (++rep->requests > rep->header[2])
    return line_reader_error(rep->import->lines, "more than the %" PRIu64 " requests that the header claims",
                             rep->header[2]);
  uint64_t address = null ? 0 : 16 * (id + 1);
  struct trace_event event = line[0] == 'f' ? event_of_release(CALL_free, address)
                             : line[0] == 'a'
                                 ? event_of_acquire(CALL_malloc, address, size_bytes, 0)
                                 : event_of_realloc(CALL_realloc, address, size_bytes ? address : 0, size_bytes, 0);
  return import_only_thread(rep->import, line_reader_number(rep->import->lines), &event);
}

static int take_line(void *context, const char *line) {
  struct rep_import *rep = context;
  if (rep->header_lines < HEADER_LINES)
    return take_header(rep, line);
  return *line ? take_request(rep, line) : 0;
}

static int run(struct import *import) {
  struct rep_import rep = {.import = import};
  if (import_lines(import, take_line, &rep) != 0)
    return -1;
  if (rep.header_lines < HEADER_LINES)
    return error_set(import->error, import->path, "ends inside the header of a .rep file");
  if (rep.requests != rep.header[2])
    return error_set(import->error, import->path, "ends after %" PRIu64 " of %" PRIu64 " requests", rep.requests,
                     rep.header[2]);
  return 0;
}

const struct import_format import_format_rep = {.recognises_bytes = recognises, .run = run};

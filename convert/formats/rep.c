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
#include "convert/formats/exporting.h"
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

/* CS:APP malloc lab's .rep (shown above). The header's numbers come first, so there are two runs over the
   history.

   The format has malloc, realloc and free of one thread on numbered objects. All other calls that acquire become
   malloc, of the product for calloc and reallocarray; an object keeps its number when it is reallocated. An object that
   is reallocated to 0 bytes and lives gets 1 byte, as 0 means free in the format. Lost: threads, times, addresses,
   alignments, malloc_usable_size, failed calls, and everything in the trace besides its calls. */

struct rep {
  bool counting;
  uint64_t requests, ids;
  /* The object numbers of an export change with each realloc; those of .rep don't. A table of live objects maps the
     latest number to the .rep id. */
  struct address_map numbers; /* number + 1 as address, slot: the .rep id */
};

static int remember(struct export *export, struct rep *rep, uint64_t number, uint64_t id) {
  struct address_entry *entry = address_map_find(&rep->numbers, number);
  if (id >= UINT32_MAX || !address_map_add(&rep->numbers, entry, number, (uint32_t)id, false))
    return error_set(export->error, export->out_name, "too many objects for memory, or for .rep");
  return 0;
}

static void put_sized(FILE *out, char letter, uint64_t id, uint64_t size_bytes) {
  fprintf(out, "%c %" PRIu64 " %" PRIu64 "\n", letter, id, letter == 'r' && size_bytes == 0 ? 1 : size_bytes);
}

static int take(struct export *export, const struct export_call *call) {
  struct rep *rep = export->context;
  FILE *out = export->out;
  rep->requests++;
  uint64_t id = 0;
  if (call->released_number) {
    struct address_entry *entry = address_map_find(&rep->numbers, call->released_number);
    id = entry->slot;
    address_map_remove(&rep->numbers, entry);
  } else if (call->number) {
    id = rep->ids++;
  }
  if (call->number && remember(export, rep, call->number, id) != 0)
    return -1;
  if (rep->counting)
    return 0;
  if (call->kind == EXPORT_FREE && !call->released_number)
    fputs("f -1\n", out);
  else if (call->kind == EXPORT_FREE)
    fprintf(out, "f %" PRIu64 "\n", id);
  else
    put_sized(out, call->released_number ? 'r' : 'a', id, call->bytes);
  return ferror(out) ? export_write_failed(export) : 0;
}

static int pass(struct export *export, struct rep *rep, struct witness *witness) {
  rep->requests = rep->ids = 0;
  export->lost = (struct export_lost){0};
  if (!address_map_init(&rep->numbers))
    return error_set(export->error, export->out_name, "out of memory");
  int result = export_calls(export, witness);
  address_map_free(&rep->numbers);
  return result;
}

static int run_export(struct export *export) {
  struct witness witness;
  struct rep rep = {.counting = true};
  export->take = take;
  export->context = &rep;
  if (pass(export, &rep, &witness) != 0)
    return -1;
  fprintf(export->out, "%" PRIu64 "\n%" PRIu64 "\n%" PRIu64 "\n1\n", witness.peak_live_bytes, rep.ids, rep.requests);
  rep.counting = false;
  return pass(export, &rep, &witness);
}

static const struct export_format export_format = {export_trace, run_export};

REGISTER_FORMAT(.name = "rep", .description = "CS:APP malloc lab's .rep (convert/formats/rep.c)", .suffix = ".rep",
                .import = &import_format, .export = &export_format);

/* SPDX-License-Identifier: MIT */
/* The traces of ClaytonKnittel/malloc-bench (proto/tracefile.proto), as a rule packed by gzip. A protobuf message of
   lines, each with one of four messages whose fields are all optional varints:

     malloc  (field 1)  result_id = 1   input_size = 2    input_alignment = 3
     free    (field 2)  input_id = 1    input_size_hint = 2   input_alignment_hint = 3 (the hints: not used)
     realloc (field 3)  result_id = 1   input_id = 2      input_size = 3
     calloc  (field 4)  result_id = 1   input_nmemb = 2   input_size = 3

     e.g. 0a 06 0a 04 08 00 10 18, then 0a 04 12 02 08 00 becomes malloc(24) = 0x10, free(0x10)

   An id is an object's number, used again after its release; its address here is 16 (id + 1), which only distinguishes
   objects ("addresses" in `lacks`). A call without a result returned NULL, or nobody asked for what it returned; free
   without an id is free(NULL). Field 2 of the file is the largest number of live objects: not used. */
#include "convert/foreign/format.h"

#include <inttypes.h>

/* A line has at most a dozen bytes of keys and lengths and three varints. */
enum { MAX_LINE_BYTES = 64, MAX_HEAD_BYTES = 20, KEY_LINES = 0x0a, KEY_MAX_LIVE = 0x10, DELIMITED = 2 };
enum line_kind { LINE_MALLOC = 1, LINE_FREE, LINE_REALLOC, LINE_CALLOC };
#define MAX_ID (UINT64_C(1) << 48)

struct span {
  const unsigned char *at, *end;
};

struct line {
  unsigned kind;
  bool has[4]; /* by field number */
  uint64_t value[4];
};

static bool take_varint(struct span *span, uint64_t *value) {
  *value = 0;
  for (unsigned shift = 0; shift < 64 && span->at < span->end; shift += 7) {
    unsigned char byte = *span->at++;
    *value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return shift < 63 || byte <= 1;
  }
  return false;
}

/* The bytes of one line. */
static bool parse_line(struct span bytes, struct line *line) {
  uint64_t key, count;
  *line = (struct line){0};
  if (!take_varint(&bytes, &key) || !take_varint(&bytes, &count) || count != (uint64_t)(bytes.end - bytes.at) ||
      key % 8 != DELIMITED || key / 8 < LINE_MALLOC || key / 8 > LINE_CALLOC)
    return false;
  line->kind = (unsigned)(key / 8);
  while (bytes.at < bytes.end) {
    uint64_t value;
    if (!take_varint(&bytes, &key) || key % 8 != 0 || key / 8 < 1 || key / 8 > 3 || !take_varint(&bytes, &value))
      return false;
    line->has[key / 8] = true;
    line->value[key / 8] = value;
  }
  return true;
}

/* Lines throughout the file's beginning. */
static bool recognises(const struct import_sample *start) {
  struct span span = {start->bytes, start->bytes + start->count};
  struct line line;
  uint64_t key, count;
  unsigned lines = 0;
  while (span.end - span.at > MAX_HEAD_BYTES + MAX_LINE_BYTES || (lines == 0 && span.at < span.end)) {
    if (!take_varint(&span, &key) || key != KEY_LINES || !take_varint(&span, &count) ||
        count > (uint64_t)(span.end - span.at) || !parse_line((struct span){span.at, span.at + count}, &line))
      return false;
    span.at += count;
    lines++;
  }
  return lines > 0;
}

/* The address of the id in the field; 0 if the line has none. */
static uint64_t address_of(const struct line *line, int field) {
  return line->has[field] ? 16 * (line->value[field] + 1) : 0;
}

static struct trace_event event_of(const struct line *line) {
  const uint64_t *value = line->value;
  switch (line->kind) {
  case LINE_MALLOC:
    return event_of_acquire(value[3] ? CALL_memalign : CALL_malloc, address_of(line, 1), value[2], value[3]);
  case LINE_CALLOC:
    return event_of_acquire(CALL_calloc, address_of(line, 1), value[3], value[2]);
  case LINE_REALLOC:
    return event_of_realloc(CALL_realloc, address_of(line, 2), address_of(line, 1), value[3], 0);
  default:
    return event_of_release(CALL_free, address_of(line, 1));
  }
}

struct file {
  struct import *import;
  uint64_t lines;
};

/* Takes one record from span, if it is there whole, or if the file ends with span (is_end). Returns 1, 0: more bytes
   are needed, or -1 with error. */
static int take_record(struct file *file, struct span *span, uint64_t offset, bool is_end) {
  struct span rest = *span;
  struct import *import = file->import;
  struct line line;
  uint64_t key, count = 0;
  if (!is_end && rest.end - rest.at < MAX_HEAD_BYTES + MAX_LINE_BYTES)
    return 0;
  if (!take_varint(&rest, &key) || !take_varint(&rest, &count))
    return error_at(import->error, import->path, offset, "cut off, or not a malloc-bench trace");
  if (key == KEY_LINES) {
    if (count > MAX_LINE_BYTES || count > (uint64_t)(rest.end - rest.at))
      return error_at(import->error, import->path, offset, "cut off: a line claims %" PRIu64 " bytes", count);
    if (!parse_line((struct span){rest.at, rest.at + count}, &line))
      return error_at(import->error, import->path, offset, "not a line of a malloc-bench trace");
    if ((line.has[1] && line.value[1] > MAX_ID) || (line.kind == LINE_REALLOC && line.value[2] > MAX_ID))
      return error_at(import->error, import->path, offset, "an id above 2^48");
    struct trace_event event = event_of(&line);
    if (import_only_thread(import, ++file->lines, &event) != 0)
      return -1;
    rest.at += count;
  } else if (key != KEY_MAX_LIVE) {
    return error_at(import->error, import->path, offset, "field %" PRIu64 " of a malloc-bench trace is not known",
                    key / 8);
  }
  *span = rest;
  return 1;
}

static int64_t take_records(void *context, const struct import_piece *piece) {
  struct file *file = context;
  struct span span = {piece->at, piece->at + piece->count};
  int taken = 1;
  if (piece->is_end && piece->offset + piece->count == 0)
    return error_set(file->import->error, file->import->path, "not a malloc-bench trace: it is empty");
  while (span.at < span.end && taken > 0)
    taken = take_record(file, &span, piece->offset + (uint64_t)(span.at - piece->at), piece->is_end);
  return taken < 0 ? -1 : span.at - piece->at;
}

static int run(struct import *import) {
  static const struct import_facts facts = {
      .clock = "ordinal",
      .order = "file",
      .source = "malloc-bench trace",
      .lacks = "threads times names addresses usable_size",
      .note = "Addresses are made up: 16 times an object's number plus one. C++ operators are malloc and free."};
  struct file file = {.import = import};
  return import_bytes(import, &facts, take_records, &file);
}

static const struct import_format import_format = {.recognises_bytes = recognises, .run = run};

REGISTER_FORMAT(.name = "mallocbench",
                .description = "ClaytonKnittel/malloc-bench's protobuf traces (convert/formats/mallocbench.c)",
                .import = &import_format);

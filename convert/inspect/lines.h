/* SPDX-License-Identifier: MIT */
/* The lines of dump, in its three formats: text, CSV, JSON. A line of CSV or JSON consists of fields with names, in the
   same order; a field that is not there is empty in CSV, and left out in JSON. Text has a grammar of its own.

   printf would take two thirds of the time (measured: 2.5 instead of 8 million lines a second). Invariant: a line has
   room in the buffer as long as lines_flush_full is called before it. Not thread-safe. */
#pragma once

#include "core/base/files.h"
#include "core/trace/event.h"

enum dump_format { DUMP_TEXT, DUMP_CSV, DUMP_JSONL };

enum { LINES_BYTES = 1 << 16, LINE_ROOM = 2048 };

struct lines {
  struct output_stream out;
  enum dump_format format;
  bool begun; /* the present line has a field */
  size_t used;
  char bytes[LINES_BYTES];
};

/* For any format. */
void put_text(struct lines *lines, const char *text);
void put_decimal(struct lines *lines, uint64_t value);
void put_hex(struct lines *lines, uint64_t value);
void put_address(struct lines *lines, uint64_t address); /* NULL for 0 */

/* A part of a line of text: the words and the number. */
void put_option(struct lines *lines, const char *words, uint64_t value);
/* An argument of a call: an int with its sign. */
void put_argument(struct lines *lines, const char *words, uint8_t call, uint64_t value);

/* Begins a field of CSV or JSON; false: its value must not be put. */
bool field_begin(struct lines *lines, const char *name, bool there);
void field_number(struct lines *lines, const char *name, bool there, uint64_t value);
void field_signed(struct lines *lines, const char *name, bool there, int64_t value);
void field_text(struct lines *lines, const char *name, const char *value); /* without quotes or controls */
void field_address(struct lines *lines, const char *name, bool there, uint64_t address);
void field_flag(struct lines *lines, const char *name, bool set); /* CSV: 0 or 1; JSON: only if set */
const char *param_key(const struct call_info *info);              /* the JSON key of the call's param */
void line_end(struct lines *lines);                               /* of CSV or JSON */

/* Writes what is in the buffer: always, or if it may have no room for a line. Return 0, or -1: errno has the reason. */
int lines_flush(struct lines *lines);
static inline int lines_flush_full(struct lines *lines) {
  return lines->used > LINES_BYTES - LINE_ROOM ? lines_flush(lines) : 0;
}

/* After the last line. Returns 0, or -1 with error. */
int lines_finish(struct lines *lines, struct error *error);

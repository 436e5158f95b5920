/* SPDX-License-Identifier: MIT */
/* `dump --accesses`: a trace's data accesses, with the calls between them, one per line, in the trace's own order.

   As text: `call 0 sp=0x7ffe1230`, `call 0 sp=0x7ffe1230 acquires 7` (object 7), `object 7 +0x20` (an access to the
   granule at that offset, or `-0x10`), `other 0x7ffe1240`. CSV and JSON lines have kind, thread, acquires (0 or 1),
   stack_pointer, object and granule (in units of 16 bytes), numbers in decimal. */
#include "convert/inspect/dump.h"
#include "core/command/cli.h"
#include "core/trace/access_stream.h"

/* acquired: the number of the object, for a call that acquired. */
static void print_access_text(struct lines *lines, const struct access_item *item, uint64_t acquired) {
  switch (item->kind) {
  case ACCESS_EVENT:
    put_option(lines, "call ", item->thread);
    put_text(lines, " sp=");
    put_hex(lines, item->stack_pointer);
    if (item->acquires)
      put_option(lines, " acquires ", acquired);
    break;
  case ACCESS_OBJECT:
    put_option(lines, "object ", item->object);
    put_text(lines, item->granule < 0 ? " -" : " +");
    put_hex(lines, (uint64_t)(item->granule < 0 ? -item->granule : item->granule) << ACCESS_GRANULE_SHIFT);
    break;
  case ACCESS_BURST:
    put_text(lines, item->value ? "burst begins" : "burst ends");
    break;
  default:
    put_text(lines, "other ");
    put_hex(lines, (uint64_t)item->granule << ACCESS_GRANULE_SHIFT);
  }
  put_text(lines, "\n");
}

static void print_access_fields(struct lines *lines, const struct access_item *item) {
  bool is_call = item->kind == ACCESS_EVENT, is_object = item->kind == ACCESS_OBJECT;
  bool is_burst = item->kind == ACCESS_BURST;
  field_text(lines, "kind",
             is_call       ? "call"
             : is_object   ? "object"
             : !is_burst   ? "other"
             : item->value ? "burst begins"
                           : "burst ends");
  field_number(lines, "thread", is_call, item->thread);
  field_number(lines, "acquires", is_call, item->acquires);
  field_number(lines, "stack_pointer", is_call, item->stack_pointer);
  field_number(lines, "object", is_object, item->object);
  field_signed(lines, "granule", !is_call && !is_burst, item->granule);
  line_end(lines);
}

static int print_all(struct trace_access_cursor *cursor, struct lines *lines, struct error *error) {
  struct access_item item;
  uint64_t acquired = 0;
  int got;
  if (lines->format == DUMP_CSV)
    put_text(lines, "kind,thread,acquires,stack_pointer,object,granule\n");
  while ((got = trace_access_cursor_next(cursor, &item)) > 0) {
    if (lines->format == DUMP_TEXT)
      print_access_text(lines, &item, acquired);
    else
      print_access_fields(lines, &item);
    if (lines_flush_full(lines) != 0)
      return error_errno(error, lines->out.name, "can't write");
    acquired += item.kind == ACCESS_EVENT && item.acquires;
  }
  return lines_finish(lines, error) == 0 ? got : -1;
}

static int dump_accesses(const struct trace_reader *reader, enum dump_format format, struct output_stream out,
                         struct error *error) {
  struct trace_access_cursor *cursor;
  if (trace_reader_requires_accesses(reader, error) != 0 || trace_access_cursor_open(&cursor, reader, error) != 0)
    return -1;
  struct lines lines = {.out = out, .format = format};
  int result = print_all(cursor, &lines, error);
  trace_access_cursor_close(cursor);
  return result;
}

static const char *take_accesses(void *field, const char *value) {
  (void)value;
  *(dump_instead **)field = dump_accesses;
  return NULL;
}

static const struct cli_option options[] = {
    {"accesses", 0, NULL, take_accesses, 0,
     .help = "instead of events, the data accesses (record --accesses) and the calls between them, one per line"},
    {.name = NULL},
};
CLI_ADD(dump, options);

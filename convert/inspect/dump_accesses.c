/* SPDX-License-Identifier: MIT */
#include "convert/inspect/dump_accesses.h"

#include <inttypes.h>

/* acquired: the number of the object, for a call that acquired. */
static void print_text(FILE *out, const struct access_item *item, uint64_t acquired) {
  switch (item->kind) {
  case ACCESS_EVENT:
    fprintf(out, "call %" PRIu32 " sp=0x%" PRIx64, item->thread, item->stack_pointer);
    if (item->acquires)
      fprintf(out, " acquires %" PRIu64, acquired);
    fputc('\n', out);
    break;
  case ACCESS_OBJECT:
    fprintf(out, "object %" PRIu64 " %c0x%" PRIx64 "\n", item->object, item->granule < 0 ? '-' : '+',
            (uint64_t)(item->granule < 0 ? -item->granule : item->granule) << ACCESS_GRANULE_SHIFT);
    break;
  case ACCESS_BURST:
    fputs(item->value ? "burst begins\n" : "burst ends\n", out);
    break;
  default:
    fprintf(out, "other 0x%" PRIx64 "\n", (uint64_t)item->granule << ACCESS_GRANULE_SHIFT);
  }
}

static void print_csv(FILE *out, const struct access_item *item) {
  switch (item->kind) {
  case ACCESS_EVENT:
    fprintf(out, "call,%" PRIu32 ",%d,%" PRIu64 ",,\n", item->thread, item->acquires, item->stack_pointer);
    break;
  case ACCESS_OBJECT:
    fprintf(out, "object,,,,%" PRIu64 ",%" PRId64 "\n", item->object, item->granule);
    break;
  case ACCESS_BURST:
    fprintf(out, "burst %s,,,,,\n", item->value ? "begins" : "ends");
    break;
  default:
    fprintf(out, "other,,,,,%" PRId64 "\n", item->granule);
  }
}

static void print_jsonl(FILE *out, const struct access_item *item) {
  switch (item->kind) {
  case ACCESS_EVENT:
    fprintf(out, "{\"kind\": \"call\", \"thread\": %" PRIu32 ", \"acquires\": %d, \"stack_pointer\": %" PRIu64 "}\n",
            item->thread, item->acquires, item->stack_pointer);
    break;
  case ACCESS_OBJECT:
    fprintf(out, "{\"kind\": \"object\", \"object\": %" PRIu64 ", \"granule\": %" PRId64 "}\n", item->object,
            item->granule);
    break;
  case ACCESS_BURST:
    fprintf(out, "{\"kind\": \"burst %s\"}\n", item->value ? "begins" : "ends");
    break;
  default:
    fprintf(out, "{\"kind\": \"other\", \"granule\": %" PRId64 "}\n", item->granule);
  }
}

static int print_all(struct trace_access_cursor *cursor, enum dump_format format, FILE *out) {
  struct access_item item;
  uint64_t acquired = 0;
  int got;
  if (format == DUMP_CSV)
    fputs("kind,thread,acquires,stack_pointer,object,granule\n", out);
  while ((got = trace_access_cursor_next(cursor, &item)) > 0 && !ferror(out)) {
    if (format == DUMP_TEXT)
      print_text(out, &item, acquired);
    else if (format == DUMP_CSV)
      print_csv(out, &item);
    else
      print_jsonl(out, &item);
    acquired += item.kind == ACCESS_EVENT && item.acquires;
  }
  return got;
}

int dump_accesses(const struct trace_reader *reader, enum dump_format format, FILE *out, const char *out_name,
                  struct error *error) {
  struct trace_access_cursor *cursor;
  if (trace_reader_requires_accesses(reader, error) != 0)
    return -1;
  if (trace_access_cursor_open(&cursor, reader, error) != 0)
    return -1;
  int result = print_all(cursor, format, out);
  trace_access_cursor_close(cursor);
  if (result < 0)
    return -1;
  return fflush(out) == 0 && !ferror(out) ? 0 : error_errno(error, out_name, "can't write");
}

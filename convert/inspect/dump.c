/* SPDX-License-Identifier: MIT */
#include "convert/inspect/dump.h"
#include "convert/history/merge.h"
#include "convert/history/trace_info.h"
#include "convert/stacks/symbols.h"
#include "core/base/json.h"
#include "core/trace/layout.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void print_frame_text(FILE *out, const struct symbol *symbol) {
  if (!symbol->module && !symbol->offset) {
    fputs("#   ... (frames beyond the depth of the recording)\n", out);
    return;
  }
  fputs("#   ", out);
  print_escaped(out, symbol->function ? symbol->function : "?");
  if (symbol->file) {
    fputs(" at ", out);
    print_escaped(out, symbol->file);
    fprintf(out, ":%d", symbol->line);
  }
  fputs(" in ", out);
  if (symbol->module) {
    print_escaped(out, symbol->module);
    fputs("+", out);
  }
  fprintf(out, "0x%" PRIx64 "\n", symbol->offset);
}

static int print_stack_text(FILE *out, struct symbols *symbols, uint32_t node) {
  fprintf(out, "# stack %" PRIu32 "\n", node);
  for (; node; node = symbols_parent(symbols, node)) {
    size_t count;
    const struct symbol *symbol = symbols_of(symbols, node, &count);
    for (size_t i = 0; i < count; i++)
      print_frame_text(out, &symbol[i]);
  }
  return ferror(out) ? -1 : 0;
}

/* As JSON: a node of the tree, or the whole stack that ends there. */
static int print_node(FILE *out, struct symbols *symbols, uint32_t node, bool whole_stack) {
  json_t *object = json_pack("{sI}", whole_stack ? "stack" : "node", (json_int_t)node);
  if (!whole_stack)
    json_object_set_new(object, "parent", json_integer(symbols_parent(symbols, node)));
  json_object_set_new(object, "frames", frames_json(symbols, node, whole_stack));
  if (!object || (!json_write(object, JSON_PRESERVE_ORDER, out) && !ferror(out)))
    errno = ENOMEM;
  fputc('\n', out);
  json_decref(object);
  return !object || ferror(out) ? -1 : 0;
}

int dump_stack_nodes(struct trace_reader *reader, bool fetch, FILE *out, const char *out_name, struct error *error) {
  struct symbols *symbols;
  if (symbols_open(&symbols, reader, fetch, error) != 0)
    return -1;
  int result = 0;
  for (uint32_t node = 1; result == 0 && node <= symbols_nodes(symbols); node++)
    result = print_node(out, symbols, node, false);
  symbols_close(symbols);
  return result == 0 && fflush(out) == 0 ? 0 : error_errno(error, out_name, "can't write");
}

struct printer {
  struct lines lines;
  struct recorded_marks marks;
  const struct trace_summary *summary;
  bool ordinal;     /* stamps are not times: they are printed as they are */
  bool has_columns; /* the trace has latency, usable size or stacks: CSV has columns for them */
  struct symbols *symbols;
  uint8_t *printed; /* one bit per stack: already printed */
};

static uint64_t time_of(const struct printer *printer, uint64_t stamp) {
  if (!printer->ordinal)
    return (uint64_t)trace_stamp_ns(printer->summary, stamp);
  uint64_t origin = printer->summary->clock_origin_stamp;
  return stamp < origin ? 0 : stamp - origin;
}

/* 0 if it was not recorded. */
static uint64_t latency_ns(const struct printer *printer, const struct trace_event *event) {
  if (!event->latency || printer->ordinal)
    return 0;
  return (uint64_t)((double)(event->latency - 1) * 1e9 / printer->summary->clock_hz + 0.5);
}

static void print_text(struct printer *printer, uint32_t thread, const struct trace_event *event) {
  struct lines *lines = &printer->lines;
  const struct call_info *info = &call_table[event->call & CALL_ID_MASK];
  uint64_t first = time_of(printer, trace_event_first_stamp(event));
  put_decimal(lines, first);
  if (trace_event_steps(event) == 2 && event->acquire_stamp != event->release_stamp)
    put_option(lines, "+", time_of(printer, event->acquire_stamp) - first);
  put_option(lines, " ", thread);
  put_text(lines, " ");
  put_text(lines, info->ident);
  const char *separator = "(";
  if (info->released != NOTHING) {
    put_text(lines, separator);
    put_address(lines, event->released);
    separator = ", ";
  }
  if (info->param != NONE) {
    put_argument(lines, separator, event->call, event->param);
    separator = ", ";
  }
  if (info->has_size)
    put_argument(lines, separator, event->call, event->size_bytes);
  else if (*separator == '(')
    put_text(lines, separator);
  put_text(lines, ")");
  if (info->acquires) {
    put_text(lines, " = ");
    put_address(lines, event->acquired);
  }
  if (event->touched_os_pages)
    put_option(lines, " touched=", event->touched_os_pages - 1u);
  if (event->touched_parts)
    put_option(lines, " parts=", event->touched_parts);
  if (event->latency && !printer->ordinal)
    put_option(lines, " latency=", latency_ns(printer, event));
  if (event->slack_bytes)
    put_option(lines, " usable=", trace_event_usable_bytes(event));
  if (event->stack && printer->symbols)
    put_option(lines, " stack=", event->stack);
  put_text(lines, "\n");
}

#define CSV_HEADER "time_ns,end_ns,thread,call,size_bytes,param,released,acquired,failed,touched_os_pages"

static void print_fields(struct printer *printer, uint32_t thread, const struct trace_event *event) {
  struct lines *lines = &printer->lines;
  const struct call_info *info = &call_table[event->call & CALL_ID_MASK];
  bool csv = lines->format == DUMP_CSV, two_steps = trace_event_steps(event) == 2;
  uint64_t first = time_of(printer, trace_event_first_stamp(event));
  field_number(lines, "time_ns", true, first);
  field_number(lines, "end_ns", csv || two_steps, two_steps ? time_of(printer, event->acquire_stamp) : first);
  field_number(lines, "thread", true, thread);
  field_text(lines, "call", info->name);
  field_number(lines, "size_bytes", info->has_size, event->size_bytes);
  field_number(lines, param_key(info), info->param != NONE, event->param);
  field_address(lines, "released", info->released != NOTHING, event->released);
  field_address(lines, "acquired", info->acquires, event->acquired);
  if (csv)
    field_flag(lines, "failed", event->call & CALL_NULL_OUT);
  field_number(lines, "touched_os_pages", event->touched_os_pages, event->touched_os_pages - 1u);
  if (printer->has_columns || !csv) {
    field_number(lines, "latency_ns", event->latency && !printer->ordinal, latency_ns(printer, event));
    field_number(lines, "usable_bytes", event->slack_bytes, trace_event_usable_bytes(event));
    field_number(lines, "stack", event->stack && (csv || printer->symbols), event->stack);
  }
  line_end(lines);
}

static char *quote(const char *text) {
  json_t *string = json_string(text);
  char *quoted = NULL;
  size_t bytes;
  FILE *memory = open_memstream(&quoted, &bytes);
  bool done = memory && json_write(string, JSON_ENCODE_ANY, memory);
  if (memory)
    fclose(memory);
  json_decref(string);
  if (!done)
    free(quoted);
  return done ? quoted : NULL;
}

static void put_quoted(struct lines *lines, const char *text) {
  char *quoted = quote(text);
  put_text(lines, quoted ? quoted : "\"\"");
  free(quoted);
}

static void print_mark(struct printer *printer, const struct recorded_mark *mark) {
  struct lines *lines = &printer->lines;
  bool text = lines->format == DUMP_TEXT;
  if (lines->format == DUMP_CSV)
    return;
  put_option(lines, text ? "# " : "{\"time_ns\": ", time_of(printer, mark->stamp));
  put_option(lines, text ? " " : ", \"thread\": ", mark->thread);
  put_text(lines, text ? " mark " : ", \"mark\": ");
  put_quoted(lines, mark->text);
  put_text(lines, text ? "\n" : "}\n");
}

/* In text it is a comment, so that it reads back. */
static int print_name(void *context, uint32_t thread, const char *name) {
  struct lines *lines = context;
  bool text = lines->format == DUMP_TEXT;
  put_option(lines, text ? "# thread " : "{\"thread\": ", thread);
  put_text(lines, text ? " is " : ", \"name\": ");
  put_quoted(lines, name);
  put_text(lines, text ? "\n" : "}\n");
  return lines_flush_full(lines) != 0;
}

static int write_failed(const struct printer *printer, struct error *error) {
  return error_errno(error, printer->lines.out.name, "can't write");
}

static int print_names(struct printer *printer, struct trace_reader *reader, struct error *error) {
  int result =
      printer->lines.format == DUMP_CSV ? 0 : trace_reader_thread_names(reader, print_name, &printer->lines, error);
  return result > 0 ? write_failed(printer, error) : result;
}

/* Prints the stack of the event, if it is the first with that stack. CSV has no place for it. */
static int print_stack(struct printer *printer, const struct trace_event *event) {
  uint8_t bit = (uint8_t)(1u << event->stack % 8);
  enum dump_format format = printer->lines.format;
  if (format == DUMP_CSV || event->stack == 0 || printer->printed[event->stack / 8] & bit)
    return 0;
  printer->printed[event->stack / 8] |= bit;
  if (lines_flush(&printer->lines) != 0)
    return -1;
  FILE *out = printer->lines.out.file;
  return format == DUMP_TEXT ? print_stack_text(out, printer->symbols, event->stack)
                             : print_node(out, printer->symbols, event->stack, true);
}

/* Prints the marks that come before the event of that thread, or, with stamp UINT64_MAX, all that remain of it. */
static int print_marks(struct printer *printer, uint32_t thread, uint64_t stamp) {
  const struct recorded_mark *mark;
  while ((mark = recorded_marks_before(&printer->marks, thread, stamp))) {
    if (thread != MERGE_ALL_THREADS && mark->thread != thread)
      continue;
    print_mark(printer, mark);
    if (lines_flush_full(&printer->lines) != 0)
      return -1;
  }
  return 0;
}

/* Prints the event of which the step is the last. */
static int print_event(struct printer *printer, const struct merge_step *step) {
  struct lines *lines = &printer->lines;
  if (print_marks(printer, step->thread, 0) != 0)
    return -1;
  if (printer->symbols && print_stack(printer, step->event) != 0)
    return -1;
  (lines->format == DUMP_TEXT ? print_text : print_fields)(printer, step->thread, step->event);
  recorded_marks_after_event(&printer->marks, step->thread);
  return lines_flush_full(lines);
}

static int dump_steps(struct printer *printer, struct merge *merge, uint32_t thread, struct error *error) {
  const struct merge_step *step;
  int got;
  while ((got = merge_peek(merge, &step)) > 0) {
    if (step->is_last && print_event(printer, step) != 0)
      return write_failed(printer, error);
    if (merge_advance(merge) < 0)
      return -1;
  }
  if (got == 0 && print_marks(printer, thread, UINT64_MAX) != 0)
    return write_failed(printer, error);
  return got == 0 ? lines_finish(&printer->lines, error) : got;
}

static int open_stacks(struct printer *printer, struct trace_reader *reader, enum dump_stacks stacks,
                       struct error *error) {
  if (stacks == DUMP_NO_STACKS || printer->summary->stack_nodes == 0)
    return 0;
  printer->printed = calloc(printer->summary->stack_nodes / 8 + 1, 1);
  if (!printer->printed)
    return error_set(error, trace_reader_path(reader), "out of memory");
  return symbols_open(&printer->symbols, reader, stacks == DUMP_STACKS_FETCHED, error);
}

int dump_trace(struct trace_reader *reader, const struct dump_options *options, struct output_stream out,
               struct error *error) {
  const struct trace_summary *summary = trace_reader_summary(reader);
  static struct printer printer;
  struct merge *merge;
  struct trace_info info;
  trace_info_read(&info, summary->info_json);
  printer = (struct printer){.lines = {.out = out, .format = options->format},
                             .summary = summary,
                             .ordinal = summary->clock_hz <= 0,
                             .has_columns = (summary->columns >> COLUMN_LATENCY & 15) != 0};
  struct lines *lines = &printer.lines;
  if (options->format == DUMP_TEXT) {
    put_text(lines, printer.ordinal ? "# heaptape-text 1 clock=ordinal" : "# heaptape-text 1 clock=nanoseconds");
    put_text(lines, info.lacks_start ? " start=unseen\n" : "\n");
  } else if (options->format == DUMP_CSV) {
    put_text(lines, printer.has_columns ? CSV_HEADER ",latency_ns,usable_bytes,stack\n" : CSV_HEADER "\n");
  }
  trace_info_free(&info);
  int result = recorded_marks_load(&printer.marks, reader, error);
  if (result == 0)
    result = print_names(&printer, reader, error);
  if (result == 0)
    result = open_stacks(&printer, reader, options->stacks, error);
  if (result == 0)
    result = merge_open(&merge, reader, options->thread, NULL, error);
  if (result == 0) {
    result = dump_steps(&printer, merge, options->thread, error);
    merge_close(merge);
  }
  recorded_marks_free(&printer.marks);
  symbols_close(printer.symbols);
  free(printer.printed);
  return result;
}

int dump_format_by_name(const char *name) {
  static const char *const names[] = {"text", "csv", "jsonl"};
  for (int i = 0; i < 3; i++)
    if (strcmp(names[i], name) == 0)
      return i;
  return -1;
}

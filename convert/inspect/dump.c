/* SPDX-License-Identifier: MIT */
#include "convert/history/merge.h"
#include "convert/history/trace_info.h"
#include "convert/inspect/lines.h"
#include "convert/stacks/stacks.h"
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

int dump_stack_as_text(FILE *out, struct symbols *symbols, uint32_t node) {
  fprintf(out, "# stack %" PRIu32 "\n", node);
  for (; node; node = symbols_parent(symbols, node)) {
    size_t count;
    const struct symbol *symbol = symbols_of(symbols, node, &count);
    for (size_t i = 0; i < count; i++)
      print_frame_text(out, &symbol[i]);
  }
  return ferror(out) ? -1 : 0;
}

static int print_json(FILE *out, json_t *object) {
  char *text = json_dumps(object, JSON_PRESERVE_ORDER);
  json_decref(object);
  if (!text) {
    errno = ENOMEM;
    return -1;
  }
  fprintf(out, "%s\n", text);
  free(text);
  return ferror(out) ? -1 : 0;
}

static void add_frames(json_t *frames, struct symbols *symbols, uint32_t node) {
  size_t count;
  const struct symbol *symbol = symbols_of(symbols, node, &count);
  for (size_t i = 0; i < count; i++)
    json_array_append_new(frames, symbol_json(&symbol[i]));
}

int dump_stack_as_json(FILE *out, struct symbols *symbols, uint32_t node) {
  json_t *frames = json_array(), *object = json_object();
  json_object_set_new(object, "stack", json_integer(node));
  for (; node; node = symbols_parent(symbols, node))
    add_frames(frames, symbols, node);
  json_object_set_new(object, "frames", frames);
  return print_json(out, object);
}

int dump_stack_nodes(struct trace_reader *reader, bool fetch, FILE *out, const char *out_name, struct error *error) {
  struct symbols *symbols;
  if (symbols_open(&symbols, reader, fetch, error) != 0)
    return -1;
  int result = 0;
  for (uint32_t node = 1; result == 0 && node <= symbols_nodes(symbols); node++) {
    json_t *frames = json_array(), *object = json_object();
    json_object_set_new(object, "node", json_integer(node));
    json_object_set_new(object, "parent", json_integer(symbols_parent(symbols, node)));
    add_frames(frames, symbols, node);
    json_object_set_new(object, "frames", frames);
    result = print_json(out, object);
  }
  symbols_close(symbols);
  return result == 0 && fflush(out) == 0 ? 0 : error_errno(error, out_name, "can't write");
}

struct printer {
  struct lines lines;
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
    put_option(lines, separator, event->param);
    separator = ", ";
  }
  if (info->has_size)
    put_option(lines, separator, event->size_bytes);
  put_text(lines, ")");
  if (info->acquires) {
    put_text(lines, " = ");
    put_address(lines, event->acquired);
  }
  if (event->touched_os_pages)
    put_option(lines, " touched=", event->touched_os_pages - 1u);
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
  field_number(lines, info->param == COUNT ? "count" : "align_bytes", info->param != NONE, event->param);
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

/* JSON, whose form of control characters does not reach U+0080 to U+009F: a text with one of these becomes ASCII. */
static char *quote(const char *text) {
  json_t *string = json_string(text);
  bool has_c1 = false;
  for (const char *at = text; (at = strchr(at, '\xc2')); at++)
    has_c1 |= (uint8_t)at[1] < 0xa0;
  char *quoted = string ? json_dumps(string, JSON_ENCODE_ANY | (has_c1 ? JSON_ENSURE_ASCII : 0)) : NULL;
  json_decref(string);
  return quoted;
}

static void put_quoted(struct lines *lines, const char *text) {
  char *quoted = quote(text);
  put_text(lines, quoted ? quoted : "\"\"");
  free(quoted);
}

static void print_mark(struct printer *printer, const struct trace_mark *mark) {
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
  return (format == DUMP_TEXT ? dump_stack_as_text : dump_stack_as_json)(printer->lines.out.file, printer->symbols,
                                                                         event->stack);
}

static int dump_steps(struct printer *printer, struct merge *merge, struct marks *marks,
                      const struct dump_options *options, struct error *error) {
  struct lines *lines = &printer->lines;
  const struct merge_step *step;
  const struct trace_mark *mark;
  int got;
  while ((got = merge_peek(merge, &step)) > 0) {
    while (step->is_last && (mark = marks_before(marks, step->thread))) {
      print_mark(printer, mark);
      if (lines_flush_full(lines) != 0)
        return write_failed(printer, error);
    }
    if (step->is_last && printer->symbols && print_stack(printer, step->event) != 0)
      return write_failed(printer, error);
    if (step->is_last)
      (lines->format == DUMP_TEXT ? print_text : print_fields)(printer, step->thread, step->event);
    if (lines_flush_full(lines) != 0)
      return write_failed(printer, error);
    if (merge_advance(merge) < 0)
      return -1;
  }
  while (got == 0 && (mark = marks_left(marks, options->thread))) {
    print_mark(printer, mark);
    if (lines_flush_full(lines) != 0)
      return write_failed(printer, error);
  }
  return got == 0 ? lines_finish(lines, error) : got;
}

/* Opens what is needed to print stacks. */
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
  struct marks marks;
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
  int result = marks_load(&marks, reader, error);
  if (result == 0)
    result = print_names(&printer, reader, error);
  if (result == 0)
    result = open_stacks(&printer, reader, options->stacks, error);
  if (result == 0)
    result = merge_open(&merge, reader, options->thread, NULL, error);
  if (result == 0) {
    result = dump_steps(&printer, merge, &marks, options, error);
    merge_close(merge);
  }
  marks_free(&marks);
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

static int add(void *context, const struct trace_mark *mark) {
  struct marks *marks = context;
  struct trace_mark *copy = vector_add(&marks->list);
  if (!copy)
    return 1;
  *copy = *mark;
  copy->text = strdup(mark->text);
  return copy->text ? 0 : 1;
}

static int by_place(const void *left, const void *right) {
  const struct trace_mark *a = left, *b = right;
  return COMPARE(a->thread, b->thread) ?: COMPARE(a->events, b->events) ?: COMPARE(a->stamp, b->stamp);
}

int marks_load(struct marks *marks, struct trace_reader *reader, struct error *error) {
  uint32_t threads = trace_reader_summary(reader)->threads;
  *marks = (struct marks){.threads = threads};
  int result = trace_reader_marks(reader, add, marks, error);
  if (result < 0 || (result == 0 && marks->list.count == 0))
    return result;
  marks->events = calloc(threads + 1, sizeof *marks->events);
  marks->next = calloc(threads + 1, sizeof *marks->next);
  marks->end = calloc(threads + 1, sizeof *marks->end);
  if (result > 0 || !marks->events || !marks->next || !marks->end)
    return error_set(error, trace_reader_path(reader), "out of memory");
  vector_sort(&marks->list, by_place);
  for (size_t i = 0; i < marks->list.count && marks->list.at[i].thread < threads; i++) {
    uint32_t thread = marks->list.at[i].thread;
    if (marks->end[thread] == 0)
      marks->next[thread] = (uint32_t)i;
    marks->end[thread] = (uint32_t)i + 1;
  }
  return 0;
}

void marks_free(struct marks *marks) {
  for (size_t i = 0; i < marks->list.count; i++)
    free((char *)marks->list.at[i].text);
  free(marks->list.at);
  free(marks->events);
  free(marks->next);
  free(marks->end);
  *marks = (struct marks){0};
}

const struct trace_mark *marks_before(struct marks *marks, uint32_t thread) {
  if (!marks->events) /* there are no marks */
    return NULL;
  uint32_t at = marks->next[thread];
  if (at < marks->end[thread] && marks->list.at[at].events <= marks->events[thread]) {
    marks->next[thread]++;
    return &marks->list.at[at];
  }
  marks->events[thread]++;
  return NULL;
}

const struct trace_mark *marks_left(struct marks *marks, uint32_t thread) {
  for (uint32_t i = 0; i < marks->threads; i++)
    if (marks->next && (thread == MERGE_ALL_THREADS || thread == i) && marks->next[i] < marks->end[i])
      return &marks->list.at[marks->next[i]++];
  return NULL;
}

static int by_stamp(const void *left, const void *right) {
  const struct trace_mark *a = left, *b = right;
  return COMPARE(a->stamp, b->stamp);
}

json_t *marks_json(struct trace_reader *reader, struct error *error) {
  const struct trace_summary *summary = trace_reader_summary(reader);
  json_t *array = NULL;
  struct marks marks;
  if (marks_load(&marks, reader, error) == 0) {
    array = json_array();
    vector_sort(&marks.list, by_stamp);
    for (size_t i = 0; i < marks.list.count; i++) {
      const struct trace_mark *mark = &marks.list.at[i];
      json_t *object = json_pack("{sI sI ss}", "thread", (json_int_t)mark->thread, "events", (json_int_t)mark->events,
                                 "text", mark->text);
      if (summary->clock_hz > 0)
        json_object_set_new(object, "time_ns", json_integer((json_int_t)trace_stamp_ns(summary, mark->stamp)));
      json_array_append_new(array, object);
    }
  }
  marks_free(&marks);
  return array;
}

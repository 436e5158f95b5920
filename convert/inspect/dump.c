/* SPDX-License-Identifier: MIT */
#include "convert/history/merge.h"
#include "convert/history/trace_info.h"
#include "convert/inspect/inspect.h"
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
  fprintf(out, "#   %s", symbol->function ? symbol->function : "?");
  if (symbol->file)
    fprintf(out, " at %s:%d", symbol->file, symbol->line);
  if (symbol->module)
    fprintf(out, " in %s+0x%" PRIx64 "\n", symbol->module, symbol->offset);
  else
    fprintf(out, " in 0x%" PRIx64 "\n", symbol->offset);
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

enum { OUT_BYTES = 1 << 16, LINE_ROOM = 2048 };

/* printf would take two thirds of the time (measured: 2.5 instead of 8 million lines a second). */
struct printer {
  const struct trace_summary *summary;
  bool ordinal; /* stamps are not times: they are printed as they are */
  bool json;
  bool has_columns; /* the trace has latency, usable size or stacks: CSV has columns for them */
  struct symbols *symbols;
  uint8_t *printed; /* one bit per stack: already printed */
  struct output_stream out;
  size_t used;
  char bytes[OUT_BYTES];
};

static void put_text(struct printer *printer, const char *text) {
  size_t length = strlen(text);
  memcpy(printer->bytes + printer->used, text, length);
  printer->used += length;
}

static void put_decimal(struct printer *printer, uint64_t value) {
  char digits[20];
  int count = 0;
  do {
    digits[count++] = (char)('0' + value % 10);
    value /= 10;
  } while (value);
  while (count > 0)
    printer->bytes[printer->used++] = digits[--count];
}

static void put_address(struct printer *printer, uint64_t address) {
  int shift = 60;
  put_text(printer, "0x");
  while (shift > 0 && !(address >> shift))
    shift -= 4;
  for (; shift >= 0; shift -= 4)
    printer->bytes[printer->used++] = "0123456789abcdef"[address >> shift & 15];
}

static void put_pointer(struct printer *printer, uint64_t address) {
  if (address)
    put_address(printer, address);
  else
    put_text(printer, "NULL");
}

static uint64_t time_of(const struct printer *printer, uint64_t stamp) {
  if (!printer->ordinal)
    return (uint64_t)trace_stamp_ns(printer->summary, stamp);
  uint64_t origin = printer->summary->clock_origin_stamp;
  return stamp < origin ? 0 : stamp - origin;
}

static bool put_latency(struct printer *printer, const char *key, const struct trace_event *event) {
  if (!event->latency || printer->ordinal)
    return false;
  put_text(printer, key);
  put_decimal(printer, (uint64_t)((double)(event->latency - 1) * 1e9 / printer->summary->clock_hz + 0.5));
  return true;
}

static bool put_usable(struct printer *printer, const char *key, const struct trace_event *event) {
  if (!event->slack_bytes)
    return false;
  put_text(printer, key);
  put_decimal(printer, trace_event_usable_bytes(event));
  return true;
}

static void put_stack(struct printer *printer, const char *key, const struct trace_event *event) {
  if (!event->stack || !printer->symbols)
    return;
  put_text(printer, key);
  put_decimal(printer, event->stack);
}

static void print_text(struct printer *printer, uint32_t thread, const struct trace_event *event) {
  const struct call_info *info = &call_table[event->call & CALL_ID_MASK];
  uint64_t first = time_of(printer, trace_event_first_stamp(event));
  put_decimal(printer, first);
  if (trace_event_steps(event) == 2 && event->acquire_stamp != event->release_stamp) {
    put_text(printer, "+");
    put_decimal(printer, time_of(printer, event->acquire_stamp) - first);
  }
  put_text(printer, " ");
  put_decimal(printer, thread);
  put_text(printer, " ");
  put_text(printer, info->ident);
  const char *separator = "(";
  if (info->released != NOTHING) {
    put_text(printer, separator);
    put_pointer(printer, event->released);
    separator = ", ";
  }
  if (info->param != NONE) {
    put_text(printer, separator);
    put_decimal(printer, event->param);
    separator = ", ";
  }
  if (info->has_size) {
    put_text(printer, separator);
    put_decimal(printer, event->size_bytes);
  }
  put_text(printer, ")");
  if (info->acquires) {
    put_text(printer, " = ");
    put_pointer(printer, event->acquired);
  }
  if (event->touched_os_pages) {
    put_text(printer, " touched=");
    put_decimal(printer, event->touched_os_pages - 1u);
  }
  put_latency(printer, " latency=", event);
  put_usable(printer, " usable=", event);
  put_stack(printer, " stack=", event);
  put_text(printer, "\n");
}

#define CSV_HEADER "time_ns,end_ns,thread,call,size_bytes,param,released,acquired,failed,touched_os_pages"

static void print_csv(struct printer *printer, uint32_t thread, const struct trace_event *event) {
  const struct call_info *info = &call_table[event->call & CALL_ID_MASK];
  uint64_t first = time_of(printer, trace_event_first_stamp(event));
  put_decimal(printer, first);
  put_text(printer, ",");
  put_decimal(printer, trace_event_steps(event) == 2 ? time_of(printer, event->acquire_stamp) : first);
  put_text(printer, ",");
  put_decimal(printer, thread);
  put_text(printer, ",");
  put_text(printer, strchr(info->name, ',') ? "\"" : "");
  put_text(printer, info->name);
  put_text(printer, strchr(info->name, ',') ? "\"," : ",");
  if (info->has_size)
    put_decimal(printer, event->size_bytes);
  put_text(printer, ",");
  if (info->param != NONE)
    put_decimal(printer, event->param);
  put_text(printer, ",");
  if (info->released != NOTHING)
    put_pointer(printer, event->released);
  put_text(printer, ",");
  if (info->acquires)
    put_pointer(printer, event->acquired);
  put_text(printer, event->call & CALL_NULL_OUT ? ",1," : ",0,");
  if (event->touched_os_pages)
    put_decimal(printer, event->touched_os_pages - 1u);
  if (printer->has_columns) {
    if (!put_latency(printer, ",", event))
      put_text(printer, ",");
    if (!put_usable(printer, ",", event))
      put_text(printer, ",");
    put_text(printer, ",");
    if (event->stack)
      put_decimal(printer, event->stack);
  }
  put_text(printer, "\n");
}

static void put_json_pointer(struct printer *printer, const char *key, uint64_t address) {
  put_text(printer, key);
  put_text(printer, address ? "\"" : "");
  put_text(printer, address ? "" : "null");
  if (address)
    put_address(printer, address);
  put_text(printer, address ? "\"" : "");
}

static void print_jsonl(struct printer *printer, uint32_t thread, const struct trace_event *event) {
  const struct call_info *info = &call_table[event->call & CALL_ID_MASK];
  uint64_t first = time_of(printer, trace_event_first_stamp(event));
  put_text(printer, "{\"time_ns\": ");
  put_decimal(printer, first);
  if (trace_event_steps(event) == 2) {
    put_text(printer, ", \"end_ns\": ");
    put_decimal(printer, time_of(printer, event->acquire_stamp));
  }
  put_text(printer, ", \"thread\": ");
  put_decimal(printer, thread);
  put_text(printer, ", \"call\": \"");
  put_text(printer, info->name);
  put_text(printer, "\"");
  if (info->has_size) {
    put_text(printer, ", \"size_bytes\": ");
    put_decimal(printer, event->size_bytes);
  }
  if (info->param != NONE) {
    put_text(printer, info->param == COUNT ? ", \"count\": " : ", \"align_bytes\": ");
    put_decimal(printer, event->param);
  }
  if (info->released != NOTHING)
    put_json_pointer(printer, ", \"released\": ", event->released);
  if (info->acquires)
    put_json_pointer(printer, ", \"acquired\": ", event->acquired);
  if (event->touched_os_pages) {
    put_text(printer, ", \"touched_os_pages\": ");
    put_decimal(printer, event->touched_os_pages - 1u);
  }
  put_latency(printer, ", \"latency_ns\": ", event);
  put_usable(printer, ", \"usable_bytes\": ", event);
  put_stack(printer, ", \"stack\": ", event);
  put_text(printer, "}\n");
}

static bool flush(struct printer *printer) {
  bool done = fwrite(printer->bytes, 1, printer->used, printer->out.file) == printer->used;
  printer->used = 0;
  return done;
}

/* In text it is a comment, so that it reads back; CSV has one line per event and no place for it. */
static void print_mark(struct printer *printer, enum dump_format format, const struct trace_mark *mark) {
  if (format == DUMP_CSV)
    return;
  json_t *text = json_string(mark->text);
  char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
  json_decref(text);
  put_text(printer, format == DUMP_TEXT ? "# " : "{\"time_ns\": ");
  put_decimal(printer, time_of(printer, mark->stamp));
  put_text(printer, format == DUMP_TEXT ? " " : ", \"thread\": ");
  put_decimal(printer, mark->thread);
  put_text(printer, format == DUMP_TEXT ? " mark " : ", \"mark\": ");
  put_text(printer, quoted ? quoted : "\"\"");
  put_text(printer, format == DUMP_TEXT ? "\n" : "}\n");
  free(quoted);
}

/* In text it is a comment, so that it reads back. */
static int print_name(void *context, uint32_t thread, const char *name) {
  struct printer *printer = context;
  json_t *text = json_string(name);
  char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
  json_decref(text);
  put_text(printer, printer->json ? "{\"thread\": " : "# thread ");
  put_decimal(printer, thread);
  put_text(printer, printer->json ? ", \"name\": " : " is ");
  put_text(printer, quoted ? quoted : "\"\"");
  put_text(printer, printer->json ? "}\n" : "\n");
  free(quoted);
  return printer->used > OUT_BYTES - LINE_ROOM && !flush(printer);
}

static int print_names(struct printer *printer, struct trace_reader *reader, enum dump_format format,
                       struct error *error) {
  printer->json = format == DUMP_JSONL;
  int result = format == DUMP_CSV ? 0 : trace_reader_thread_names(reader, print_name, printer, error);
  return result > 0 ? error_errno(error, printer->out.name, "can't write") : result;
}

/* Prints the stack of the event, if it is the first with that stack. CSV has no place for it. */
static int print_stack(struct printer *printer, enum dump_format format, const struct trace_event *event) {
  uint8_t bit = (uint8_t)(1u << event->stack % 8);
  if (format == DUMP_CSV || event->stack == 0 || printer->printed[event->stack / 8] & bit)
    return 0;
  printer->printed[event->stack / 8] |= bit;
  if (!flush(printer))
    return -1;
  return format == DUMP_TEXT ? dump_stack_as_text(printer->out.file, printer->symbols, event->stack)
                             : dump_stack_as_json(printer->out.file, printer->symbols, event->stack);
}

static int dump_steps(struct printer *printer, struct merge *merge, struct marks *marks,
                      const struct dump_options *options, struct error *error) {
  void (*const print[])(struct printer *, uint32_t, const struct trace_event *) = {print_text, print_csv, print_jsonl};
  const struct merge_step *step;
  int got;
  while ((got = merge_peek(merge, &step)) > 0) {
    const struct trace_mark *mark;
    while (step->is_last && (mark = marks_before(marks, step->thread))) {
      print_mark(printer, options->format, mark);
      if (printer->used > OUT_BYTES - LINE_ROOM && !flush(printer))
        return error_errno(error, printer->out.name, "can't write");
    }
    if (step->is_last && printer->symbols && print_stack(printer, options->format, step->event) != 0)
      return error_errno(error, printer->out.name, "can't write");
    if (step->is_last)
      print[options->format](printer, step->thread, step->event);
    if (printer->used > OUT_BYTES - LINE_ROOM && !flush(printer))
      return error_errno(error, printer->out.name, "can't write");
    if (merge_advance(merge) < 0)
      return -1;
  }
  const struct trace_mark *mark;
  while (got == 0 && (mark = marks_left(marks, options->thread))) {
    print_mark(printer, options->format, mark);
    if (printer->used > OUT_BYTES - LINE_ROOM && !flush(printer))
      return error_errno(error, printer->out.name, "can't write");
  }
  if (got == 0 && (!flush(printer) || fflush(printer->out.file) != 0))
    return error_errno(error, printer->out.name, "can't write");
  return got;
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
  printer = (struct printer){.summary = summary,
                             .out = out,
                             .ordinal = summary->clock_hz <= 0,
                             .has_columns = (summary->columns >> COLUMN_LATENCY & 15) != 0};
  if (options->format == DUMP_TEXT) {
    put_text(&printer, "# heaptape-text 1 clock=");
    put_text(&printer, printer.ordinal ? "ordinal" : "nanoseconds");
    put_text(&printer, info.lacks_start ? " start=unseen\n" : "\n");
  } else if (options->format == DUMP_CSV) {
    put_text(&printer, CSV_HEADER);
    put_text(&printer, printer.has_columns ? ",latency_ns,usable_bytes,stack\n" : "\n");
  }
  trace_info_free(&info);
  int result = marks_load(&marks, reader, error);
  if (result == 0)
    result = print_names(&printer, reader, options->format, error);
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

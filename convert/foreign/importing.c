/* SPDX-License-Identifier: MIT */
#include "convert/foreign/importing.h"

#include "core/base/json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* A quarter of the writer's default, and the fastest compression. The events that wait for their block then stay in the
   processor's cache, which matters at the speed of an import: together 25 % faster, a third of the memory, 5 % larger
   files (bench_import dj, and Android's system UI). */
enum { BLOCK_EVENTS = 1 << 14, ZSTD_LEVEL = 1 };

static char *info_of(const struct import_facts *facts) {
  bool timed = strcmp(facts->clock, "nanoseconds") == 0;
  json_t *info = json_pack("{s{ss si sI} ss ss so}", "clock", "kind", facts->clock, "hz", timed ? 1000000000 : 0,
                           "origin_stamp", (json_int_t)facts->origin_stamp, "order", facts->order, "source",
                           facts->source, "lacks", json_split(facts->lacks, " "));
  if (info && facts->program && facts->program[0])
    json_object_set_new(info, "program", json_string(facts->program));
  if (info && facts->os_page_bytes)
    json_set_count(info, "os_page_bytes", facts->os_page_bytes);
  if (info && facts->pid)
    json_set_count(info, "pid", facts->pid);
  if (info && facts->note)
    json_object_set_new(info, "note", json_string(facts->note));
  char *text = info ? json_dumps(info, JSON_REAL_PRECISION(12)) : NULL;
  json_decref(info);
  return text;
}

int import_begin(struct import *import, const struct import_facts *facts) {
  char *info = info_of(facts);
  if (!info)
    return import_no_memory(import);
  static const struct trace_writer_options options = {.zstd_level = ZSTD_LEVEL, .block_events = BLOCK_EVENTS};
  int result = trace_writer_open(&import->writer, import->out, info, &options, import->error);
  free(info);
  return result;
}

/* Passes on the file's pieces: of each, what was not taken is the beginning of the next. */
static int take_pieces(struct byte_source *source, import_take *take, void *context) {
  enum { ROOM = 1 << 16 };
  static _Alignas(8) unsigned char bytes[ROOM];
  struct import_piece piece = {.at = bytes};
  do {
    int64_t got = byte_source_read(source, bytes + piece.count, ROOM - piece.count);
    piece.count += got > 0 ? (size_t)got : 0;
    piece.is_end = got == 0;
    int64_t taken = got < 0 ? -1 : take(context, &piece);
    if (taken < 0)
      return -1;
    piece.offset += (uint64_t)taken;
    piece.count -= (size_t)taken;
    memmove(bytes, bytes + taken, piece.count);
  } while (!piece.is_end);
  return 0;
}

int import_bytes(struct import *import, const struct import_facts *facts, import_take *take, void *context) {
  struct byte_source *source;
  if (byte_source_open(&source, import->path, import->error) != 0)
    return -1;
  int result = import_begin(import, facts);
  if (result == 0)
    result = take_pieces(source, take, context);
  byte_source_close(source);
  return result;
}

int import_lines(struct import *import, int (*take)(void *context, const char *line), void *context) {
  const char *line;
  int got = import->lines ? 0 : line_reader_open(&import->lines, import->path, import->error);
  while (got == 0 && (got = line_reader_next(import->lines, &line)) > 0)
    got = take(context, line);
  line_reader_close(import->lines);
  import->lines = NULL;
  if (got == 0 && !import->writer && import->without_calls)
    return error_set(import->error, import->path, "%s", import->without_calls);
  return got == 0 ? 0 : -1;
}

void import_note(struct import *import, const char *format, ...) {
  va_list arguments;
  if (import->report->used)
    text_add(import->report, "; ");
  va_start(arguments, format);
  text_add_list(import->report, format, arguments);
  va_end(arguments);
}

int import_process(struct import *import, uint64_t pid) {
  if (import->options->has_process && pid != import->options->process)
    return 0;
  if (import->has_pid && pid != import->pid)
    return line_reader_error(import->lines,
                             "of process %" PRIu64 ", the lines before are of %" PRIu64 ": choose one with --process",
                             pid, import->pid);
  import->has_pid = true;
  import->pid = pid;
  return 1;
}

int import_bad_line(struct import *import, const char *what, const char *line) {
  return line_reader_error(import->lines, "not a line of %s: '%.60s'", what, line);
}

/* Far above what any machine has, and low enough that the history can add up live bytes. */
#define REFUSED_BYTES (UINT64_C(1) << 56)

int import_refuse_size(struct import *import, const struct trace_event *event) {
  uint64_t bytes = trace_event_request_bytes(event);
  if (!trace_event_acquires(event) || bytes < REFUSED_BYTES)
    return 0;
  if (import->lines)
    return line_reader_error(import->lines, "%s was given %" PRIu64 " bytes: more than any machine has",
                             call_table[event->call & CALL_ID_MASK].name, bytes);
  return error_set(import->error, import->path,
                   "event %" PRIu64 ": %s was given %" PRIu64 " bytes: more than any machine has",
                   trace_writer_totals(import->writer)->events + 1, call_table[event->call & CALL_ID_MASK].name, bytes);
}

int import_no_memory(struct import *import) {
  return error_set(import->error, import->path, "out of memory");
}

int import_file(const struct import_format *format, const char *path, const struct import_options *options,
                const char *out, struct error *error) {
  struct text_line unread;
  struct import import = {.path = path,
                          .out = out,
                          .without_calls = format->without_calls,
                          .options = options,
                          .report = options->report ? options->report : &unread,
                          .error = error,
                          .cached_id = UINT64_MAX,
                          .last_thread = UINT32_MAX};
  *import.report = (struct text_line){.used = 0};
  if (!address_map_init(&import.threads.map))
    return import_no_memory(&import);
  int result = format->run(&import);
  if (import.writer && import.report->used)
    trace_writer_totals(import.writer)->note = import.report->text;
  /* Closing the writer returns its own error; an importer that stopped without an error met it. */
  if (import.writer && trace_writer_close(import.writer, "exit", 0, error) != 0)
    result = -1;
  address_map_free(&import.threads.map);
  return result == 0 ? 0 : error_set(error, out, "can't write");
}

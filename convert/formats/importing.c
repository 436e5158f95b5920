/* SPDX-License-Identifier: MIT */
#include "convert/formats/importing.h"

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

struct late_releases *late_releases_new(struct import *import) {
  struct late_releases *late = calloc(1, sizeof *late);
  if (!late || !address_map_init(&late->live)) {
    free(late);
    import_no_memory(import);
    return NULL;
  }
  late->import = import;
  late->first = late->next = 1;
  return late;
}

void late_releases_free(struct late_releases *late) {
  if (late)
    address_map_free(&late->live);
  free(late);
}

static struct late_place *place_of(struct late_releases *late, uint64_t number) {
  return &late->places[number % LATE_RELEASE_WINDOW];
}

static int hand_on(struct late_releases *late) {
  struct late_place *place = place_of(late, late->first++);
  if (place->awaited)
    return 0;
  return import_only_thread(late->import, place->now, &place->event);
}

static int push(struct late_releases *late, uint64_t now, const struct trace_event *event, uint64_t awaited) {
  if (late->next - late->first == LATE_RELEASE_WINDOW && hand_on(late) != 0)
    return -1;
  struct late_place *place = place_of(late, late->next++);
  place->now = now;
  place->awaited = awaited;
  place->earlier = 0;
  if (event)
    place->event = *event;
  return 0;
}

/* The empty place in the window that awaits a release of the entry's address; NULL if there is none. */
static struct late_place *awaiting(struct late_releases *late, const struct address_entry *entry) {
  if (!entry->address || !entry->slot)
    return NULL;
  uint64_t number = (late->next & ~(uint64_t)UINT32_MAX) | entry->slot;
  number -= number >= late->next ? (uint64_t)1 << 32 : 0;
  if (number < late->first || number >= late->next)
    return NULL;
  struct late_place *place = place_of(late, number);
  return place->awaited == entry->address ? place : NULL;
}

static int acquire(struct late_releases *late, uint64_t now, uint64_t address) {
  struct address_entry *entry = address_map_find(&late->live, address);
  if (!entry->address)
    return address_map_add(&late->live, entry, address, 0, false) ? 0 : import_no_memory(late->import);
  uint64_t number = late->next;
  if (push(late, now, NULL, address) != 0)
    return -1;
  place_of(late, number)->earlier = entry->slot;
  entry->slot = (uint32_t)number; /* 0 once in 2^32 events: then one release stays late */
  return 0;
}

/* Returns true if the release of the address moved to the place that awaits it. */
static bool move(struct late_releases *late, uint64_t address) {
  struct address_entry *entry = address_map_find(&late->live, address);
  struct late_place *place = awaiting(late, entry);
  if (!place)
    return false;
  place->awaited = 0;
  place->event = event_of_release(CALL_free, address);
  entry->slot = place->earlier;
  late->moved++;
  return true;
}

static void release(struct late_releases *late, uint64_t address) {
  struct address_entry *entry = address_map_find(&late->live, address);
  if (entry->address)
    address_map_remove(&late->live, entry);
}

int late_releases_event(struct late_releases *late, uint64_t now, const struct trace_event *event, bool may_be_late) {
  struct trace_event taken = *event;
  /* Checked here, as the line is still known. */
  if (taken.size_bytes >> 32 && import_refuse_size(late->import, &taken) != 0)
    return -1;
  if (trace_event_releases(&taken)) {
    if (may_be_late && move(late, taken.released)) {
      if (!trace_event_acquires(&taken))
        return 0;
      taken.released = 0; /* the realloc becomes the moved free, and this acquire */
      taken.call |= CALL_NULL_IN;
    } else {
      release(late, taken.released);
    }
  }
  if (trace_event_acquires(&taken) && acquire(late, now, taken.acquired) != 0)
    return -1;
  return push(late, now, &taken, 0);
}

int late_releases_finish(struct late_releases *late) {
  while (late->first < late->next)
    if (hand_on(late) != 0)
      return -1;
  if (late->moved)
    import_note(late->import,
                "%" PRIu64 " releases were logged after their address had been handed out again: moved before that",
                late->moved);
  return 0;
}

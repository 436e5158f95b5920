/* SPDX-License-Identifier: MIT */
/* Android's memory_replay text (platform/system/extras, memory_replay), plain or the only file of a zip:

     202: malloc 0xb4827400 1024              malloc of thread 0
     202: calloc 0xb4848040 3 8               count 3, size 8
     77: realloc 0xb4850000 0xb4827400 2048   new, old, size: of thread 1
     202: memalign 0xb4860000 64 100          alignment 64, size 100
     202: free 0x0                            free(NULL)
     77: thread_done 0x0                      tid 77, if it comes again, is a new thread

   tids, sizes and counts are decimal, pointers hexadecimal; 0x0 is NULL. Newer recorders end each line with start and
   end of the call in ns; a file has them on every line or on none. Without them the stamp of a line is its number, so
   that the merged order is the file's ("order": "file"); with them a release has the start and an acquire the end, as
   in capture. Recordings begin when the app is forked from its template process, so objects may be freed that were
   never handed out: "lacks" has "start". */
#include "convert/formats/exporting.h"

#include <inttypes.h>

enum times { TIMES_UNKNOWN, TIMES_NONE, TIMES_GIVEN };

struct android_import {
  struct import *import;
  enum times times;
};

/* One parsed line. */
struct android_line {
  uint64_t tid;
  int call; /* call id; -1: thread_done */
  uint64_t pointer, old_pointer, param, size_bytes;
  uint64_t start_ns, end_ns;
  bool timed;
};

static bool recognises(const char *line) {
  uint64_t tid;
  return scan_decimal(&line, &tid) && scan_word(&line, ": ") && *line >= 'a' && *line <= 'z';
}

static bool scan_times(const char **at, struct android_line *line) {
  line->timed = **at != '\0';
  return !line->timed ||
         (scan_word(at, " ") && scan_decimal(at, &line->start_ns) && scan_word(at, " ") &&
          scan_decimal(at, &line->end_ns) && line->start_ns <= line->end_ns && line->end_ns < UINT64_MAX);
}

static bool scan_call(const char **at, struct android_line *line) {
  if (scan_word(at, "malloc ")) {
    line->call = CALL_malloc;
    return scan_hex(at, &line->pointer) && scan_word(at, " ") && scan_decimal(at, &line->size_bytes);
  }
  if (scan_word(at, "free ")) {
    line->call = CALL_free;
    return scan_hex(at, &line->pointer);
  }
  if (scan_word(at, "calloc ") || scan_word(at, "memalign ")) {
    line->call = (*at)[-2] == 'c' ? CALL_calloc : CALL_memalign;
    return scan_hex(at, &line->pointer) && scan_word(at, " ") && scan_decimal(at, &line->param) && scan_word(at, " ") &&
           scan_decimal(at, &line->size_bytes);
  }
  if (scan_word(at, "realloc ")) {
    line->call = CALL_realloc;
    return scan_hex(at, &line->pointer) && scan_word(at, " ") && scan_hex(at, &line->old_pointer) &&
           scan_word(at, " ") && scan_decimal(at, &line->size_bytes);
  }
  line->call = -1;
  return scan_word(at, "thread_done ") && scan_hex(at, &line->pointer) && line->pointer == 0;
}

static bool scan_line(const char *at, struct android_line *line) {
  *line = (struct android_line){0};
  return scan_decimal(&at, &line->tid) && line->tid < UINT64_MAX && scan_word(&at, ": ") && scan_call(&at, line) &&
         scan_times(&at, line) && *at == '\0';
}

static struct trace_event event_of(const struct android_line *line, uint64_t line_number) {
  struct trace_event event = line->call == CALL_free ? event_of_release(CALL_free, line->pointer)
                             : line->call == CALL_realloc
                                 ? event_of_realloc(CALL_realloc, line->old_pointer, line->pointer, line->size_bytes, 0)
                                 : event_of_acquire(line->call, line->pointer, line->size_bytes, line->param);
  /* Stamp 0 means "inherits" for the writer. */
  event.release_stamp = line->timed ? line->start_ns + 1 : line_number;
  event.acquire_stamp = line->timed ? line->end_ns + 1 : line_number;
  if (line->call == CALL_free)
    event.acquire_stamp = event.release_stamp;
  return event;
}

static int begin(struct android_import *android, bool timed) {
  const struct import_facts facts = {
      .clock = timed ? "nanoseconds" : "ordinal",
      .order = timed ? "every" : "file",
      .source = "android memory_replay",
      .lacks = timed ? "start failures usable_size" : "start times failures usable_size",
      .note = "Recording began when the app was forked from its template process: objects from before may be freed.",
      .origin_stamp = timed};
  android->times = timed ? TIMES_GIVEN : TIMES_NONE;
  return import_begin(android->import, &facts);
}

static int take_line(void *context, const char *text) {
  struct android_import *android = context;
  struct import *import = android->import;
  struct android_line line;
  if (!scan_line(text, &line))
    return import_bad_line(import, "memory_replay text", text);
  if (line.call < 0)
    return import_thread_end(import, line.tid);
  if (android->times == TIMES_UNKNOWN && begin(android, line.timed) != 0)
    return -1;
  if (line.timed != (android->times == TIMES_GIVEN))
    return line_reader_error(import->lines, "%s",
                             line.timed ? "times, where the lines before have none"
                                        : "no times, unlike the lines before");
  struct trace_event event = event_of(&line, line_reader_number(import->lines));
  return import_event(import, line.tid, &event);
}

static int run_import(struct import *import) {
  struct android_import android = {.import = import};
  if (import_lines(import, take_line, &android) != 0)
    return -1;
  return import->writer ? 0 : begin(&android, false);
}

static const struct import_format import_format = {.recognises_line = recognises, .run = run_import};

/* Android's memory_replay text (shown above), with the thread's number as its tid, and with start and end
   of each call if the trace has times.

   The format has malloc, calloc, memalign, realloc and free. Operators new and delete, posix_memalign, aligned_alloc
   and the sized frees become these; valloc and pvalloc become memalign of an OS page; reallocarray becomes realloc of
   the product. Lost: malloc_usable_size, failed reallocs, and everything in the trace besides its calls. */

static void put_times(const struct export *export, const struct export_call *call) {
  const struct trace_summary *summary = trace_reader_summary(export->reader);
  if (summary->clock_hz > 0)
    fprintf(export->out, " %" PRIu64 " %" PRIu64, call->release_ns, call->acquire_ns);
  fputc('\n', export->out);
}

static int take(struct export *export, const struct export_call *call) {
  FILE *out = export->out;
  fprintf(out, "%" PRIu32 ": ", call->thread);
  switch (call->kind) {
  case EXPORT_MALLOC:
    fprintf(out, "malloc 0x%" PRIx64 " %" PRIu64, call->acquired, call->bytes);
    break;
  case EXPORT_CALLOC:
    fprintf(out, "calloc 0x%" PRIx64 " %" PRIu64 " %" PRIu64, call->acquired, call->count, call->size_bytes);
    break;
  case EXPORT_ALIGNED:
    fprintf(out, "memalign 0x%" PRIx64 " %" PRIu64 " %" PRIu64, call->acquired, call->alignment, call->bytes);
    break;
  case EXPORT_REALLOC:
    fprintf(out, "realloc 0x%" PRIx64 " 0x%" PRIx64 " %" PRIu64, call->acquired, call->released, call->bytes);
    break;
  case EXPORT_FREE:
    fprintf(out, "free 0x%" PRIx64, call->released);
    break;
  }
  put_times(export, call);
  return ferror(out) ? export_write_failed(export) : 0;
}

static void thread_end(struct export *export, uint32_t thread) {
  const struct trace_summary *summary = trace_reader_summary(export->reader);
  uint64_t end_ns = (uint64_t)trace_stamp_ns(summary, summary->last_stamp);
  struct export_call end = {.release_ns = end_ns, .acquire_ns = end_ns};
  fprintf(export->out, "%" PRIu32 ": thread_done 0x0", thread);
  put_times(export, &end);
}

static int run_export(struct export *export) {
  struct witness witness;
  export->take = take;
  export->thread_end = thread_end;
  export->one_line_reallocs = trace_reader_summary(export->reader)->clock_hz <= 0;
  export->keeps_failures = true;
  return export_calls(export, &witness);
}

static const struct export_format export_format = {export_trace, run_export};

REGISTER_FORMAT(.name = "android",
                .description = "Android memory_replay text, plain or in a zip (convert/formats/android.c)",
                .suffix = ".android", .import = &import_format, .export = &export_format);

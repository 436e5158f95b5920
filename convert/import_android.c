/* Android's memory_replay text (platform/system/extras, memory_replay), plain or the only file of a zip:

     202: malloc 0xb4827400 1024              malloc of thread 0
     202: calloc 0xb4848040 3 8               count 3, size 8
     77: realloc 0xb4850000 0xb4827400 2048   new, old, size: of thread 1
     202: memalign 0xb4860000 64 100          alignment 64, size 100
     202: free 0x0                            free(NULL)
     77: thread_done 0x0                      tid 77, if it comes again, is a new thread

   tids, sizes and counts are decimal, pointers hexadecimal; 0x0 is NULL. Newer recorders end each line with start and
   end of the call in ns; a file has them on every line or on none. Without them the stamp of a line is its number, so
   that the merged order is the file's ("order": "file"); with them a release has the start, an acquire the end, as
   capture logs them. Recordings begin when the app is forked from its template process, so objects may be freed that
   were never handed out: "lacks" has "start". */
#include "convert/import.h"
#include "convert/line_reader.h"
#include "convert/thread_numbers.h"
#include "trace/trace_write.h"

#include <inttypes.h>
#include <stdio.h>

enum times { TIMES_UNKNOWN, TIMES_NONE, TIMES_GIVEN };

struct android_import {
  struct line_reader *lines;
  struct trace_writer *writer;
  struct thread_numbers threads;
  enum times times;
  const char *out;
  struct trace_error *error;
};

/* One line, taken apart. */
struct android_line {
  uint64_t tid;
  int call; /* call id; -1: thread_done */
  uint64_t pointer, old_pointer, param, size_bytes;
  uint64_t start_ns, end_ns;
  bool timed;
};

int import_android_recognises(const char *line) {
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
  struct trace_event event = {.call = (uint8_t)line->call, .size_bytes = line->size_bytes, .param = line->param};
  /* Stamp 0 means "inherits" to the writer. */
  event.release_stamp = line->timed ? line->start_ns + 1 : line_number;
  event.acquire_stamp = line->timed ? line->end_ns + 1 : line_number;
  if (line->call == CALL_free) {
    event.released = line->pointer;
    event.call |= line->pointer ? 0 : CALL_NULL_IN;
    event.acquire_stamp = event.release_stamp;
    return event;
  }
  event.acquired = line->pointer;
  event.call |= line->pointer ? 0 : CALL_NULL_OUT;
  if (line->call == CALL_realloc) {
    event.released = line->old_pointer;
    event.call |= line->old_pointer ? 0 : CALL_NULL_IN;
  }
  return event;
}

static int open_writer(struct android_import *import, bool timed) {
  import->times = timed ? TIMES_GIVEN : TIMES_NONE;
  const char *info =
      timed
          ? "{\"clock\": {\"kind\": \"nanoseconds\", \"hz\": 1e9, \"origin_stamp\": 1}, \"order\": \"every\", "
            "\"source\": \"android memory_replay\", \"lacks\": [\"start\", \"failures\", \"usable_size\"]}"
          : "{\"clock\": {\"kind\": \"ordinal\", \"hz\": 0, \"origin_stamp\": 0}, \"order\": \"file\", "
            "\"source\": \"android memory_replay\", \"lacks\": [\"start\", \"times\", \"failures\", \"usable_size\"]}";
  return trace_writer_open(&import->writer, import->out, info, NULL, import->error);
}

static int take_line(struct android_import *import, const char *text) {
  struct android_line line;
  uint32_t thread;
  if (!scan_line(text, &line))
    return line_reader_error(import->lines, "not a line of memory_replay text: '%.60s'", text);
  if (line.call < 0) {
    if (thread_number_end(&import->threads, line.tid, &thread))
      return trace_writer_flush_thread(import->writer, thread);
    return 0; /* a thread that made no call */
  }
  if (import->times == TIMES_UNKNOWN && open_writer(import, line.timed) != 0)
    return -1;
  if (line.timed != (import->times == TIMES_GIVEN))
    return line_reader_error(import->lines, "%s",
                             line.timed ? "times, where the lines before have none"
                                        : "no times, unlike the lines before");
  if (!thread_number(&import->threads, line.tid, &thread))
    return line_reader_error(import->lines, "out of memory");
  struct trace_event event = event_of(&line, line_reader_number(import->lines));
  return trace_writer_event(import->writer, thread, &event);
}

static int take_lines(struct android_import *import) {
  const char *line;
  int got;
  while ((got = line_reader_next(import->lines, &line)) > 0)
    if (take_line(import, line) != 0)
      return -1;
  if (got == 0 && import->times == TIMES_UNKNOWN)
    return open_writer(import, false);
  return got;
}

int import_android(const char *path, const char *out, struct trace_error *error) {
  struct android_import import = {.out = out, .error = error};
  int result = -1;
  if (!address_map_init(&import.threads.map))
    trace_error_set(error, path, "out of memory");
  else if (line_reader_open(&import.lines, path, error) == 0)
    result = take_lines(&import);
  if (import.writer && trace_writer_close(import.writer, "exit", 0, error) != 0)
    result = -1;
  line_reader_close(import.lines);
  address_map_free(&import.threads.map);
  return result == 0 ? 0 : trace_error_set(error, out, "can't write");
}

/* SPDX-License-Identifier: MIT */
/* kdump text of jemalloc's utrace records on FreeBSD: MALLOC_CONF=utrace:true ktrace -t u PROGRAM, then kdump -t u,
   with -H (threads) and -T, -E or -R (times) for more information:

       1234 prog     USER  malloc_init()                          left out
       1234 prog     USER  0x8006a7000 = malloc(24)               malloc(24)
       1234 100073 prog 1700000000.000123 USER  free(0x8006a7000) with -H and -T: free of thread 100073 at that time
       1234 prog     USER  0x8006a7040 = realloc(0x8006a7000, 48)
       1234 prog     USER  RTLD: ...                              left out, like all other records of the user
       1234 prog     CALL  write(0x1,0x800a07000,0x6)             left out, like the other records of one line

   calloc and the aligned calls look like malloc. malloc(0), realloc(p, 0) and free all look like free of the pointer
   passed in. That is right for realloc; malloc(0) becomes free(NULL), and the later free of its object is of an object
   never acquired. A realloc is logged after the call. If threads are known, the history repairs an inversion; otherwise
   late_releases.h does. The times are in microseconds; the file's order is kept. */
#include "convert/foreign/format.h"
#include "convert/formats/late_releases.h"

struct kdump_import {
  struct import *import;
  struct late_releases *late; /* used if threads are not known */
  bool threads, times;
  uint64_t first_us;
  uint64_t now;
};

struct kdump_line {
  uint64_t pid, thread, time_us;
  bool has_thread, has_time;
  const char *type;   /* of 4 letters */
  const char *record; /* what follows the type */
};

static const char types[][5] = {"USER", "CALL", "RET ", "NAMI", "GIO ", "PSIG",
                                "CSW ", "STRU", "SCTL", "CAP ", "PFLT", "PRET"};

static bool is_type(const char *at) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strncmp(at, types[i], 4) == 0 && at[4] == ' ')
      return true;
  return false;
}

static void skip_spaces(const char **at) {
  while (**at == ' ')
    ++*at;
}

/* "SECONDS.MICROS " */
static bool scan_time(const char *at, uint64_t *time_us) {
  uint64_t seconds, micros;
  return scan_decimal(&at, &seconds) && scan_word(&at, ".") && scan_decimal(&at, &micros) && micros < 1000000 &&
         *at == ' ' && !__builtin_mul_overflow(seconds, 1000000, &seconds) &&
         !__builtin_add_overflow(seconds, micros, time_us);
}

/* PID [TID] COMMAND [TIME] TYPE RECORD; the command may contain spaces, so the type is searched for from the left. */
static bool scan_line(const char *at, struct kdump_line *line) {
  *line = (struct kdump_line){0};
  skip_spaces(&at);
  if (!scan_decimal(&at, &line->pid) || *at != ' ')
    return false;
  skip_spaces(&at);
  const char *command = at;
  while (*at && !(at > command && is_type(at))) {
    at += strcspn(at, " ");
    skip_spaces(&at);
  }
  if (!*at)
    return false;
  line->type = at;
  line->record = at + 4;
  skip_spaces(&line->record);
  const char *word = command;
  line->has_thread = scan_decimal(&word, &line->thread) && *word == ' ';
  skip_spaces(&word);
  line->has_thread = line->has_thread && word < at && !scan_time(word, &line->time_us);
  for (const char *next = command; next < at; next += strcspn(next, " "), skip_spaces(&next))
    line->has_time |= scan_time(next, &line->time_us);
  return true;
}

/* Returns 1: a call; 0: another record; -1: looks like a call, but is not one. */
static int scan_record(const char *at, struct trace_event *event) {
  uint64_t address, from = 0, size_bytes;
  if (scan_word(&at, "free(")) {
    *event = event_of_release(CALL_free, 0);
    if (!scan_hex(&at, &address) || !scan_word(&at, ")") || *at)
      return -1;
    *event = event_of_release(CALL_free, address);
    return 1;
  }
  if (strncmp(at, "0x", 2) != 0)
    return 0;
  if (!scan_hex(&at, &address) || !scan_word(&at, " = "))
    return -1;
  bool reallocs = scan_word(&at, "realloc(");
  if ((!reallocs && !scan_word(&at, "malloc(")) || (reallocs && (!scan_hex(&at, &from) || !scan_word(&at, ", "))) ||
      !scan_decimal(&at, &size_bytes) || !scan_word(&at, ")") || *at)
    return -1;
  *event = reallocs ? event_of_realloc(CALL_realloc, from, address, size_bytes, 0)
                    : event_of_acquire(CALL_malloc, address, size_bytes, 0);
  return 1;
}

static int begin(struct kdump_import *kdump, const struct kdump_line *line) {
  static const char *const lacks[2][2] = {
      {"start threads times names alignment zero_size usable_size",
       "start threads names alignment zero_size usable_size"},
      {"start times names alignment zero_size usable_size", "start names alignment zero_size usable_size"}};
  kdump->threads = line->has_thread;
  kdump->times = line->has_time;
  kdump->first_us = line->time_us;
  const struct import_facts facts = {.clock = kdump->times ? "nanoseconds" : "counter",
                                     .order = kdump->threads ? "logged" : "file",
                                     .source = "kdump of jemalloc utrace",
                                     .pid = line->pid,
                                     .lacks = lacks[kdump->threads][kdump->times],
                                     .note = "calloc and aligned calls are mallocs here; malloc(0) is a free(NULL), "
                                             "the free of its object is of one never acquired.",
                                     .origin_stamp = kdump->times};
  return import_begin(kdump->import, &facts);
}

/* The stamp of the line: ns since the first line, or the line's number. */
static uint64_t now_of(struct kdump_import *kdump, const struct kdump_line *line) {
  if (!kdump->times)
    return line_reader_number(kdump->import->lines);
  uint64_t since_us = line->time_us > kdump->first_us ? line->time_us - kdump->first_us : 0;
  return since_us < UINT64_MAX / 2000 ? since_us * 1000 + 1 : UINT64_MAX / 2;
}

static int take_line(void *context, const char *text) {
  struct kdump_import *kdump = context;
  struct import *import = kdump->import;
  struct kdump_line line;
  struct trace_event event;
  if (!scan_line(text, &line))
    return line_reader_error(import->lines,
                             "not a record of kdump: '%.60s' (kdump -t u leaves out what fills several "
                             "lines)",
                             text);
  if (strncmp(line.type, "USER", 4) != 0)
    return 0;
  int wanted = import_process(import, line.pid);
  if (wanted <= 0)
    return wanted;
  if (!import->writer && begin(kdump, &line) != 0)
    return -1;
  if (line.has_thread != kdump->threads || line.has_time != kdump->times)
    return line_reader_error(import->lines, "thread or time in another form than in the lines before");
  int found = scan_record(line.record, &event);
  if (found <= 0)
    return found < 0 ? import_bad_line(import, "jemalloc's utrace", text) : 0;
  if (!kdump->threads)
    return late_releases_event(kdump->late, now_of(kdump, &line), &event, trace_event_acquires(&event));
  return import_event_in_order(import, line.thread, now_of(kdump, &line), &event);
}

static bool recognises(const char *text) {
  struct kdump_line line;
  struct trace_event event;
  return scan_line(text, &line) && strncmp(line.type, "USER", 4) == 0 &&
         (scan_record(line.record, &event) > 0 || strcmp(line.record, "malloc_init()") == 0);
}

static int run(struct import *import) {
  struct kdump_import kdump = {.import = import, .late = late_releases_new(import)};
  int result = kdump.late ? import_lines(import, take_line, &kdump) : -1;
  if (result == 0)
    result = late_releases_finish(kdump.late);
  late_releases_free(kdump.late);
  return result;
}

static const struct import_format import_format = {
    .recognises_line = recognises, .run = run, .without_calls = "has no USER record of kdump"};

REGISTER_FORMAT(.name = "kdump", .description = "FreeBSD kdump of jemalloc's utrace records (convert/formats/kdump.c)",
                .import = &import_format);

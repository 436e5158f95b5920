/* SPDX-License-Identifier: MIT */
/* Firefox's logalloc (MALLOC_LOG=FILE), a line per call: process, thread, call, result:

     7 7 malloc(32)=0x7f00000120e0
     7 8 calloc(1,148)=0x7f0000037480                  count, size
     7 7 posix_memalign(256,240)=0x7f0000083300        alignment, size; so are aligned_alloc and memalign
     7 7 realloc(0x7f00000120e0,64)=0x7f0000036680
     7 7 jemalloc_stats()                              left out
     7 7 free(0x7f0000036680)

   becomes malloc(32) = 0x7f00000120e0 of thread 7 and so on. logalloc holds a lock during call and line, so the file's
   order is the calls'. logalloc_munge.py replaces pointers by numbers, `#1`: such an address becomes 16 times its
   number
   ("addresses" in `lacks`). Of a log of several processes --process chooses one. C++ operators are malloc and free. */
#include "convert/foreign/format.h"

#include <inttypes.h>

struct log_import {
  struct import *import;
  bool numbered; /* by logalloc_munge.py */
};

struct log_line {
  uint64_t process, thread;
  int call; /* CALL_LIMIT: left out */
  struct trace_event event;
  bool numbered;
};

static bool scan_pointer(const char **at, uint64_t *address, bool *numbered) {
  *address = 0;
  if (scan_word(at, "#")) {
    *numbered = true;
    if (!scan_decimal(at, address) || *address > UINT64_MAX / 16)
      return false;
    *address *= 16;
    return true;
  }
  return scan_hex(at, address) || scan_word(at, "(nil)") || scan_word(at, "0");
}

/* "NAME("; calls that are none of malloc's family are CALL_LIMIT. */
static bool scan_call(const char **at, int *call) {
  static const char *const family[] = {"malloc(",         "free(",          "calloc(",   "realloc(",
                                       "posix_memalign(", "aligned_alloc(", "memalign(", "valloc("};
  static const uint8_t calls[] = {CALL_malloc,         CALL_free,          CALL_calloc,   CALL_realloc,
                                  CALL_posix_memalign, CALL_aligned_alloc, CALL_memalign, CALL_valloc};
  for (size_t i = 0; i < sizeof calls; i++)
    if (scan_word(at, family[i])) {
      *call = calls[i];
      return true;
    }
  *call = CALL_LIMIT;
  return scan_word(at, "jemalloc_");
}

static bool scan_arguments(const char **at, struct log_line *line) {
  const struct call_info *info = &call_table[line->call];
  struct trace_event *event = &line->event;
  const char *separator = "";
  if (info->released != NOTHING) {
    if (!scan_pointer(at, &event->released, &line->numbered))
      return false;
    separator = ",";
  }
  if (info->param != NONE) {
    if (!scan_word(at, separator) || !scan_decimal(at, &event->param))
      return false;
    separator = ",";
  }
  return (!info->has_size || (scan_word(at, separator) && scan_decimal(at, &event->size_bytes))) && scan_word(at, ")");
}

static bool scan_line(const char *at, struct log_line *line) {
  *line = (struct log_line){0};
  if (!scan_decimal(&at, &line->process) || !scan_word(&at, " ") || !scan_decimal(&at, &line->thread) ||
      line->thread == UINT64_MAX || !scan_word(&at, " ") || !scan_call(&at, &line->call))
    return false;
  if (line->call == CALL_LIMIT)
    return true;
  struct trace_event *event = &line->event;
  const struct call_info *info = &call_table[line->call];
  if (!scan_arguments(&at, line) ||
      (info->acquires && (!scan_word(&at, "=") || !scan_pointer(&at, &event->acquired, &line->numbered))))
    return false;
  event->call = (uint8_t)(line->call | (info->released != NOTHING && !event->released ? CALL_NULL_IN : 0) |
                          (info->acquires && !event->acquired ? CALL_NULL_OUT : 0));
  return *at == '\0';
}

static bool recognises(const char *text) {
  struct log_line line;
  return scan_line(text, &line);
}

static int begin(struct log_import *log) {
  const struct import_facts facts = {
      .clock = "ordinal",
      .order = "file",
      .source = "Firefox logalloc",
      .pid = log->import->pid,
      .lacks = log->numbered ? "times names addresses usable_size" : "times names usable_size",
      .note = log->numbered
                  ? "C++ operators are malloc and free here. Addresses are made up: 16 times the numbers that "
                    "logalloc_munge.py gave."
                  : "C++ operators are malloc and free here."};
  return import_begin(log->import, &facts);
}

static int take_line(void *context, const char *text) {
  struct log_import *log = context;
  struct import *import = log->import;
  struct log_line line;
  if (!scan_line(text, &line))
    return import_bad_line(import, "Firefox's logalloc", text);
  int wanted = line.call == CALL_LIMIT ? 0 : import_process(import, line.process);
  if (wanted <= 0)
    return wanted;
  bool has_pointer = line.event.released || line.event.acquired;
  if (!import->writer) {
    log->numbered = line.numbered;
    if (begin(log) != 0)
      return -1;
  } else if (has_pointer && line.numbered != log->numbered) {
    return line_reader_error(import->lines, "addresses and numbers of addresses in one log");
  }
  return import_event_in_order(import, line.thread, line_reader_number(import->lines), &line.event);
}

static int run(struct import *import) {
  struct log_import log = {.import = import};
  if (import_lines(import, take_line, &log) != 0)
    return -1;
  return import->writer ? 0
                        : error_set(import->error, import->path, "has no call of Firefox's logalloc%s",
                                    import->options->has_process ? " of that process" : "");
}

static const struct import_format import_format = {.recognises_line = recognises, .run = run};

REGISTER_FORMAT(.name = "logalloc", .description = "Firefox's logalloc, plain or munged (convert/formats/logalloc.c)",
                .import = &import_format);

/* SPDX-License-Identifier: MIT */
/* memray text, as `memray parse FILE.bin` prints it of a recording made with `memray run` (all allocations, not
   --aggregate):

     HEADER magic=memray ... file_format=ALL_ALLOCATIONS ... start_time=1795241220376 ... pid=28998 ...
     CONTEXT_SWITCH tid=1                                what follows is of thread 1
     MEMORY_RECORD time=1795241220378 memory=46321664    ms since 1970: the time of what follows
     ALLOCATION address=0x55aea0a66380 size=1340 allocator=malloc native_frame_id=13     malloc(1340)
     ALLOCATION address=0x55aea082f440 size=0 allocator=free native_frame_id=0           free(...)
     ALLOCATION address=0x55aea082f440 size=1024 allocator=realloc native_frame_id=32    realloc(NULL, 1024): its old
                                                         pointer is the free before it, and can't be distinguished from
   one ALLOCATION address=0x7f... size=262144 allocator=mmap ...     left out, like munmap and Python's own allocators
     FRAME_PUSH ..., SEGMENT ..., TRAILER ...                      left out

   calloc's size is the product, so it becomes calloc(1, size); alignments are missing and become 16. A realloc is
   logged after the call: the history repairs an inversion ("order": "logged"). */
#include "convert/foreign/format.h"

#include <inttypes.h>

enum { PYTHON_OBJECT = CALL_LIMIT, MAPPING, UNKNOWN };

/* Every allocator gives this alignment anyway, and every aligned call accepts it: 0 would fail in a replay. */
enum { UNKNOWN_ALIGNMENT = 16 };

struct memray_import {
  struct import *import;
  uint64_t start_ms;
  uint64_t now; /* stamp: ns since the start, plus 1 */
  uint64_t thread;
  uint64_t python_objects, mappings;
};

static const char *const left_out[] = {"CONTEXT_SWITCH", "CODE_OBJECT",    "FRAME_PUSH",       "FRAME_POP",
                                       "FRAME_ID",       "FRAME_INDEX",    "NATIVE_FRAME_ID",  "MEMORY_MAP_START",
                                       "MEMORY_SEGMENT", "SEGMENT_HEADER", "SEGMENT",          "THREAD",
                                       "TRAILER",        "MEMORY_RECORD",  "SURVIVING_OBJECT", "OBJECT_RECORD"};

static bool recognises(const char *line) {
  return scan_word(&line, "HEADER magic=memray ");
}

static bool number_after(const char *line, const char *key, uint64_t *number) {
  const char *at = strstr(line, key);
  return at && (at += strlen(key)) && scan_decimal(&at, number) && (*at == ' ' || *at == '\0');
}

static int take_header(struct memray_import *memray, const char *line) {
  uint64_t pid = 0;
  if (!recognises(line))
    return line_reader_error(memray->import->lines, "not memray text: it must begin with 'HEADER magic=memray'");
  if (!strstr(line, " file_format=ALL_ALLOCATIONS "))
    return line_reader_error(memray->import->lines, "memray has recorded sums, not calls: record without --aggregate");
  if (!number_after(line, " start_time=", &memray->start_ms))
    return line_reader_error(memray->import->lines, "memray's header has no start_time");
  number_after(line, " pid=", &pid);
  memray->now = 1;
  memray->thread = 1;
  const struct import_facts facts = {
      .clock = "nanoseconds",
      .order = "logged",
      .source = "memray parse",
      .pid = pid,
      .lacks = "start calls realloc alignment failures usable_size",
      .note =
          "Times are memray's, every 10 ms or so. realloc is a free and a realloc(NULL) here, calloc has one product, "
          "alignments are 16. "
          "Failed calls, free(NULL) and what malloc's callers do inside libraries that memray did not patch are not "
          "in the recording; nor, here, Python's own allocators and mmap.",
      .origin_stamp = 1};
  return import_begin(memray->import, &facts);
}

static int allocator_named(const char *name, size_t length) {
  static const struct {
    const char *name;
    int call;
  } allocators[] = {{"malloc", CALL_malloc},
                    {"free", CALL_free},
                    {"calloc", CALL_calloc},
                    {"realloc", CALL_realloc},
                    {"posix_memalign", CALL_posix_memalign},
                    {"aligned_alloc", CALL_aligned_alloc},
                    {"memalign", CALL_memalign},
                    {"valloc", CALL_valloc},
                    {"pvalloc", CALL_pvalloc},
                    {"mmap", MAPPING},
                    {"munmap", MAPPING},
                    {"pymalloc_malloc", PYTHON_OBJECT},
                    {"pymalloc_calloc", PYTHON_OBJECT},
                    {"pymalloc_realloc", PYTHON_OBJECT},
                    {"pymalloc_free", PYTHON_OBJECT}};
  for (size_t i = 0; i < sizeof allocators / sizeof *allocators; i++)
    if (strlen(allocators[i].name) == length && memcmp(name, allocators[i].name, length) == 0)
      return allocators[i].call;
  return UNKNOWN;
}

static int take_allocation(struct memray_import *memray, const char *line) {
  const char *at = line;
  uint64_t address, size_bytes;
  if (!scan_word(&at, "ALLOCATION address=") || !scan_hex(&at, &address) || !scan_word(&at, " size=") ||
      !scan_decimal(&at, &size_bytes) || !scan_word(&at, " allocator="))
    return import_bad_line(memray->import, "memray text", line);
  size_t length = strcspn(at, " ");
  int call = allocator_named(at, length);
  struct trace_event event;
  switch (call) {
  case UNKNOWN:
    return line_reader_error(memray->import->lines, "unknown allocator '%.*s'", length > 40 ? 40 : (int)length, at);
  case MAPPING:
    memray->mappings++;
    return 0;
  case PYTHON_OBJECT:
    memray->python_objects++;
    return 0;
  case CALL_free:
    event = event_of_release(CALL_free, address);
    break;
  case CALL_realloc:
    event = event_of_realloc(CALL_realloc, 0, address, size_bytes, 0);
    break;
  default:
    event = event_of_acquire(call, address, size_bytes,
                             call == CALL_calloc               ? 1
                             : call_table[call].param == ALIGN ? UNKNOWN_ALIGNMENT
                                                               : 0);
    break;
  }
  return import_event_in_order(memray->import, memray->thread, memray->now, &event);
}

static int take_time(struct memray_import *memray, const char *line) {
  uint64_t ms;
  if (!number_after(line, " time=", &ms) || ms > UINT64_MAX / 2000000)
    return import_bad_line(memray->import, "memray text", line);
  memray->now = (ms > memray->start_ms ? ms - memray->start_ms : 0) * 1000000 + 1;
  return 0;
}

static bool is_left_out(const char *line) {
  size_t length = strcspn(line, " ");
  for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
    if (strlen(left_out[i]) == length && memcmp(line, left_out[i], length) == 0)
      return true;
  return false;
}

static int take_line(void *context, const char *line) {
  struct memray_import *memray = context;
  const char *at = line;
  if (!memray->import->writer)
    return take_header(memray, line);
  if (line[0] == 'A')
    return take_allocation(memray, line);
  if (strncmp(line, "MEMORY_RECORD ", 14) == 0)
    return take_time(memray, line);
  if (scan_word(&at, "CONTEXT_SWITCH tid=")) {
    if (!scan_decimal(&at, &memray->thread) || *at || memray->thread == UINT64_MAX)
      return import_bad_line(memray->import, "memray text", line);
    return 0;
  }
  return is_left_out(line) ? 0 : import_bad_line(memray->import, "memray text", line);
}

static int run(struct import *import) {
  struct memray_import memray = {.import = import};
  if (import_lines(import, take_line, &memray) != 0)
    return -1;
  if (memray.python_objects)
    import_note(import, "%" PRIu64 " calls of Python's own allocators left out", memray.python_objects);
  if (memray.mappings)
    import_note(import, "%" PRIu64 " mmap and munmap calls left out", memray.mappings);
  return 0;
}

static const struct import_format import_format = {
    .recognises_line = recognises, .run = run, .without_calls = "not memray text: it is empty"};

REGISTER_FORMAT(.name = "memray", .description = "what memray parse prints (convert/formats/memray.c)",
                .import = &import_format);

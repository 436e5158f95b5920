/* heaptape's own text form, which `dump` prints and people can write:

     # heaptape-text 1 clock=nanoseconds
     0 0 malloc(24) = 0x1000
     10 0 calloc(3, 8) = 0x2000                   count, size
     20 0 posix_memalign(64, 100) = 0x3000        alignment, size
     30+5 1 realloc(0x2000, 4096) = 0x4000        released at 30, handed out at 35
     - 1 malloc_usable_size(0x4000)               no stamp of its own: inherits the thread's last one
     50 1 realloc(0x4000, 1099511627776) = NULL   failed: 0x4000 lives on
     60 0 free(0x3000) touched=1                  1 OS page of it was resident
     70 0 free(NULL)

   Time in ns, thread, call with its arguments in the order pointer, count or alignment, size, and its result. Calls go
   by their identifier in trace/calls.def ("operator delete(size)" is delete_sized). Lines that begin with # and empty
   lines are skipped, but for the first, which may set clock=ordinal (times only tell order; taken in the file's own
   order) or clock=nanoseconds (the default), and start=unseen (objects from before the first line may be freed).
   Threads get dense numbers in the order of their first lines. */
#include "convert/import.h"
#include "convert/line_reader.h"
#include "convert/thread_numbers.h"
#include "trace/trace_write.h"

#include <stdio.h>

#define HEADER "# heaptape-text 1"

struct text_import {
  struct line_reader *lines;
  struct trace_writer *writer;
  struct thread_numbers threads;
  const char *out;
  struct trace_error *error;
};

int import_text_recognises(const char *line) {
  uint64_t number;
  if (line[0] == '#')
    return strncmp(line, HEADER, strlen(HEADER)) == 0;
  if (!scan_word(&line, "-") && !scan_decimal(&line, &number))
    return 0;
  if (scan_word(&line, "+") && !scan_decimal(&line, &number))
    return 0;
  return scan_word(&line, " ") && scan_decimal(&line, &number) && scan_word(&line, " ");
}

static bool scan_pointer(const char **at, uint64_t *address) {
  *address = 0;
  return scan_word(at, "NULL") || (scan_hex(at, address) && *address != 0);
}

/* The call's id; -1 if the name is not one. */
static int scan_name(const char **at) {
  char name[64];
  size_t length = strcspn(*at, "(");
  if (length >= sizeof name || (*at)[length] != '(')
    return -1;
  memcpy(name, *at, length);
  name[length] = '\0';
  *at += length + 1;
  return call_by_name(name);
}

static bool scan_arguments(const char **at, const struct call_info *info, struct trace_event *event) {
  const char *separator = "";
  if (info->released != NOTHING) {
    if (!scan_pointer(at, &event->released))
      return false;
    event->call |= event->released ? 0 : CALL_NULL_IN;
    separator = ", ";
  }
  if (info->param != NONE) {
    if (!scan_word(at, separator) || !scan_decimal(at, &event->param))
      return false;
    separator = ", ";
  }
  return (!info->has_size || (scan_word(at, separator) && scan_decimal(at, &event->size_bytes))) && scan_word(at, ")");
}

/* ns times become stamps from 1 on: 0 means "inherits" to the writer. */
static bool scan_stamps(const char **at, struct trace_event *event) {
  uint64_t time_ns, later_ns = 0;
  if (scan_word(at, "-"))
    return true;
  if (!scan_decimal(at, &time_ns) || (scan_word(at, "+") && !scan_decimal(at, &later_ns)))
    return false;
  event->release_stamp = time_ns + 1;
  return time_ns < INT64_MAX && later_ns < INT64_MAX && (event->acquire_stamp = time_ns + later_ns + 1);
}

static bool scan_event(const char *at, uint64_t *thread, struct trace_event *event) {
  *event = (struct trace_event){0};
  if (!scan_stamps(&at, event) || !scan_word(&at, " ") || !scan_decimal(&at, thread) || !scan_word(&at, " "))
    return false;
  int id = scan_name(&at);
  if (id < 0)
    return false;
  event->call = (uint8_t)id;
  if (!scan_arguments(&at, &call_table[id], event))
    return false;
  if (call_table[id].acquires) {
    if (!scan_word(&at, " = ") || !scan_pointer(&at, &event->acquired))
      return false;
    event->call |= event->acquired ? 0 : CALL_NULL_OUT;
  }
  uint64_t touched;
  if (scan_word(&at, " touched=")) {
    if (!trace_event_releases(event) || !scan_decimal(&at, &touched) || touched >= UINT32_MAX)
      return false;
    event->touched_os_pages = (uint32_t)touched + 1;
  }
  if (trace_event_steps(event) == 1 && trace_event_takes(event))
    event->acquire_stamp = event->release_stamp;
  return *at == '\0' && *thread < UINT64_MAX;
}

static int open_writer(struct text_import *import, bool ordinal, bool start_unseen) {
  char info[256];
  snprintf(info, sizeof info,
           "{\"clock\": {\"kind\": \"%s\", \"hz\": %s, \"origin_stamp\": 1}, \"order\": \"%s\", \"source\": \"heaptape "
           "text\", "
           "\"lacks\": [%s%s%s]}",
           ordinal ? "ordinal" : "nanoseconds", ordinal ? "0" : "1e9", ordinal ? "file" : "text",
           start_unseen ? "\"start\"" : "", start_unseen && ordinal ? ", " : "", ordinal ? "\"times\"" : "");
  return trace_writer_open(&import->writer, import->out, info, NULL, import->error);
}

static int take_header(struct text_import *import, const char *line) {
  bool ordinal = false, start_unseen = false;
  if (scan_word(&line, HEADER)) {
    if (scan_word(&line, " clock=ordinal"))
      ordinal = true;
    else
      scan_word(&line, " clock=nanoseconds");
    start_unseen = scan_word(&line, " start=unseen");
    if (*line)
      return line_reader_error(import->lines, "unknown setting in the header: '%.60s'", line);
  }
  return open_writer(import, ordinal, start_unseen);
}

static int take_lines(struct text_import *import) {
  const char *line;
  int got;
  while ((got = line_reader_next(import->lines, &line)) > 0) {
    uint64_t id;
    uint32_t thread;
    struct trace_event event;
    if (!import->writer && take_header(import, line) != 0)
      return -1;
    if (line[0] == '#' || line[0] == '\0')
      continue;
    if (!scan_event(line, &id, &event))
      return line_reader_error(import->lines, "not a line of heaptape text: '%.60s'", line);
    uint32_t known = import->threads.count;
    if (!thread_number(&import->threads, id, &thread))
      return line_reader_error(import->lines, "out of memory");
    if (thread == known && trace_event_first_stamp(&event) == 0)
      return line_reader_error(import->lines, "the first line of a thread has no time");
    if (trace_writer_event(import->writer, thread, &event) != 0)
      return -1;
  }
  return got == 0 && !import->writer ? open_writer(import, false, false) : got;
}

int import_text(const char *path, const char *out, struct trace_error *error) {
  struct text_import import = {.out = out, .error = error};
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

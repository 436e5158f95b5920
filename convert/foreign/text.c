/* SPDX-License-Identifier: MIT */
/* heaptape's own text form, which `dump` prints and people can write:

     # heaptape-text 1 clock=nanoseconds
     0 0 malloc(24) = 0x1000
     10 0 calloc(3, 8) = 0x2000                   count, size
     20 0 posix_memalign(64, 100) = 0x3000        alignment, size
     30+5 1 realloc(0x2000, 4096) = 0x4000        released at 30, handed out at 35
     - 1 malloc_usable_size(0x4000)               no stamp of its own: inherits the thread's last one
     50 1 realloc(0x4000, 1099511627776) = NULL   failed: 0x4000 stays live
     55 0 mallopt(-8, 2)                          an int has its sign
     60 0 free(0x3000) touched=1                  1 OS page of it was resident
     70 0 free(NULL)
     80 0 malloc(20) = 0x5000 latency=35 usable=24 stack=7    the real call took 35 ns, 24 bytes are usable

   Time in ns, thread, call with its arguments in the order pointer, count or alignment, size, and its result. Calls are
   named by their identifier in core/trace/calls.def ("operator delete(size)" is delete_sized). After touched there may
   be parts (core/base/touched.h). touched, latency, usable and stack may each be left out; the stack number is ignored,
   as the stack itself is a comment of dump --stacks. Lines that begin with # and empty lines are skipped, except the
   first, which may set clock=ordinal (times only give order; the file's own order is used) or clock=nanoseconds (the
   default), and then start=unseen (objects from before the first line may be freed). Threads get dense numbers in the
   order of their first lines. */
#include "convert/foreign/format.h"
#include "core/trace/control_names.h"

#define HEADER "# heaptape-text 1"

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

static bool recognises(const char *line) {
  uint64_t number;
  if (line[0] == '#')
    return strncmp(line, HEADER, strlen(HEADER)) == 0;
  if (!scan_word(&line, "-") && !scan_decimal(&line, &number))
    return 0;
  if (scan_word(&line, "+") && !scan_decimal(&line, &number))
    return 0;
  /* Firefox's log has no space before the "=". */
  return scan_word(&line, " ") && scan_decimal(&line, &number) && scan_word(&line, " ") && scan_name(&line) >= 0 &&
         !strstr(line, ")=");
}

/* A number; of an int, also a negative one. */
static bool scan_argument(const char **at, uint8_t call, uint64_t *value) {
  bool negative = control_takes_ints(call & CALL_ID_MASK) && scan_word(at, "-");
  if (!scan_decimal(at, value) || (negative && (*value == 0 || *value > (uint64_t)INT32_MAX + 1)))
    return false;
  *value = negative ? (uint32_t)(0 - *value) : *value;
  return true;
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
    if (!scan_word(at, separator) || !scan_argument(at, event->call, &event->param))
      return false;
    separator = ", ";
  }
  return (!info->has_size || (scan_word(at, separator) && scan_argument(at, event->call, &event->size_bytes))) &&
         scan_word(at, ")");
}

/* ns times become stamps from 1 on: 0 means "inherits" for the writer. */
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
  uint64_t touched, parts;
  if (scan_word(&at, " touched=")) {
    if (!trace_event_releases(event) || !scan_decimal(&at, &touched) || touched >= UINT32_MAX)
      return false;
    event->touched_os_pages = (uint32_t)touched + 1;
    if (scan_word(&at, " parts=")) {
      if (!scan_decimal(&at, &parts) || parts > UINT32_MAX || (uint64_t)__builtin_popcountll(parts) > touched)
        return false;
      event->touched_parts = (uint32_t)parts;
    }
  }
  uint64_t latency_ns, usable_bytes, stack;
  if (scan_word(&at, " latency=")) {
    if (!scan_decimal(&at, &latency_ns) || latency_ns >= INT64_MAX)
      return false;
    event->latency = latency_ns + 1;
  }
  if (scan_word(&at, " usable=")) {
    if (!trace_event_acquires(event) || !scan_decimal(&at, &usable_bytes))
      return false;
    event->slack_bytes = trace_event_slack(trace_event_request_bytes(event), usable_bytes);
  }
  if (scan_word(&at, " stack=") && !scan_decimal(&at, &stack)) /* the stacks were in comments */
    return false;
  if (trace_event_steps(event) == 1 && trace_event_takes(event))
    event->acquire_stamp = event->release_stamp;
  return *at == '\0' && *thread < UINT64_MAX;
}

static int begin(struct import *import, bool ordinal, bool start_unseen) {
  const struct import_facts facts = {.clock = ordinal ? "ordinal" : "nanoseconds",
                                     .order = ordinal ? "file" : "text",
                                     .source = "heaptape text",
                                     .lacks = start_unseen && ordinal ? "start times"
                                              : start_unseen          ? "start"
                                              : ordinal               ? "times"
                                                                      : "",
                                     .origin_stamp = 1};
  return import_begin(import, &facts);
}

static int take_header(struct import *import, const char *line) {
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
  return begin(import, ordinal, start_unseen);
}

static int take_line(void *context, const char *line) {
  struct import *import = context;
  uint64_t id;
  uint32_t thread;
  struct trace_event event;
  if (!import->writer && take_header(import, line) != 0)
    return -1;
  if (line[0] == '#' || line[0] == '\0')
    return 0;
  if (!scan_event(line, &id, &event))
    return import_bad_line(import, "heaptape text", line);
  uint32_t known = import->threads.count;
  if (import_thread(import, id, &thread) != 0)
    return -1;
  if (thread == known && trace_event_first_stamp(&event) == 0)
    return line_reader_error(import->lines, "the first line of a thread has no time");
  return import_write(import, thread, &event);
}

static int run(struct import *import) {
  if (import_lines(import, take_line, import) != 0)
    return -1;
  return import->writer ? 0 : begin(import, false, false);
}

static const struct import_format import_format = {.recognises_line = recognises, .run = run};

REGISTER_FORMAT(.name = "text", .description = "heaptape text, as dump prints it (convert/foreign/text.c)",
                .suffix = ".txt", .import = &import_format);

/* SPDX-License-Identifier: MIT */
/* ltrace text, as `ltrace -f -e fork+malloc+free+calloc+realloc+reallocarray+memalign+aligned_alloc+valloc+pvalloc -o
   FILE PROGRAM` writes it:

     28959 prog->malloc(942)                         = 0x560ba4e362a0    malloc(942), of thread 28959
     28959 prog->memalign(64, 47, 0x721e7590, 0)     = 0x560ba4e36680    memalign(64, 47): ltrace does not know how many
                                                                         arguments it has, and prints four
     28959 prog->free(0)                             = <void>            free(NULL)
     28960 prog->realloc(0, 600 <unfinished ...>                         begins here ...
     28961 prog->free(0x7ff560000b70 <unfinished ...>
     28960 <... realloc resumed> )                   = 0x7ff568000c70    ... and ends here
     28960 prog->_Znwm(64, 3, 0, 0x7ff5)             = 0x47b5f20         operator new(64); so are _Znam, _ZdlPv, _ZdaPv
     28960 prog->mallopt(0xfffffff8, 2, 0x7ffd, 0)     = 1              mallopt(M_ARENA_MAX, 2); so are the others
     28960 +++ exited (status 0) +++                                     left out, like --- signals ---

   Without -f there is no thread before each line. Other options add columns: -t, -tt and -ttt the time of day, in
   seconds or microseconds, or since 1970; -r the time since the line before; -i the instruction; -n spaces; -T, at the
   end, how long the call took, which is mostly ltrace's own time and is left out, as -i's is; on standard error, -f is
   [pid 28959]; -x names the library behind a call:

     28959 02:30:29.494525 [0x5632495b41cc] malloc@libc.so.6(10) = 0x563283c1a2a0 <0.000254>

   A release is stamped where its call begins, an acquire where it ends: with the line's time, raised where it does not
   rise, or, without times, with the line's number. A call inside another one of the family (reallocarray calls calloc)
   is left out. A process of its own, in which fork returned 0 or another program began, is left out from there on; one
   whose fork was not traced is an error once it shows that it is one (take_mark). ltrace does not print the
   pointer that posix_memalign hands out: such a call becomes a gap of the trace. By default it sees the calls of the
   program itself, not those of its libraries, so objects may be acquired or released unseen: hence "calls" and "start"
   in `lacks`. */
#include "convert/foreign/format.h"
#include "core/base/vector.h"

#include <inttypes.h>
#include <stdlib.h>

/* A thread's call that has begun. */
struct open_call {
  uint64_t id;     /* ltrace's id of the thread */
  uint64_t unseen; /* calls whose address ltrace does not print */
  bool any;
  bool addressless; /* posix_memalign */
  bool forked;      /* it is the thread of a process that the program forked */
  bool taken;       /* it has made calls of the family */
  unsigned nested;  /* calls inside it that have not ended */
  struct trace_event event;
  char name[24];
};

struct ltrace_import {
  struct import *import;
  struct thread_numbers callers; /* not the trace's numbers, which a thread gets with its first complete call */
  VECTOR(struct open_call) open; /* by number in callers */
  bool timed;
  uint64_t stamp;              /* of the line */
  uint64_t first_ns, last_ns;  /* of the first line with a time, and of the last */
  uint64_t first_id, ended_id; /* of the program, of the thread or process that ended last; 0: none */
  bool ended;                  /* the program has */
  uint64_t nested, doubts, forked, unsure;
};

/* What stands before a line's text. */
struct prefix {
  uint64_t id; /* of the thread; 0: none */
  enum { NO_TIME, TIME_OF_DAY, TIME_SINCE_EPOCH, TIME_SINCE_LINE } time;
  uint64_t ns;
};

#define DAY_NS (UINT64_C(86400) * 1000000000)
/* ltrace -ttt prints times far above, -r times far below. */
enum { MOST_SECONDS_BETWEEN_LINES = 100000000 };

static void skip_spaces(const char **at) {
  while (**at == ' ')
    ++*at;
}

/* Scans "PID " or "[pid PID] ", if there is one. */
static uint64_t scan_id(const char **at) {
  uint64_t id = 0;
  const char *from = *at;
  bool bracket = scan_word(at, "[pid ");
  if (scan_decimal(at, &id) && (!bracket || scan_word(at, "]")) && **at == ' ')
    return id;
  *at = from;
  return 0;
}

/* ".MICROSECONDS ", or " " where these may be missing. */
static bool scan_micros(const char **at, bool needed, uint64_t *ns) {
  uint64_t micros = 0;
  if (scan_word(at, ".") ? !scan_decimal(at, &micros) || micros >= 1000000 : needed)
    return false;
  *ns += micros * 1000;
  return **at == ' ';
}

/* "HH:MM:SS ", "HH:MM:SS.MICROS " or "SECONDS.MICROS ", if there is one. */
static void scan_time(const char **at, struct prefix *prefix) {
  const char *from = *at;
  uint64_t first, minutes, seconds;
  if (!scan_decimal(at, &first) || first > UINT64_MAX / 2 / 1000000000) {
    *at = from;
  } else if (scan_word(at, ":")) {
    if (scan_decimal(at, &minutes) && scan_word(at, ":") && scan_decimal(at, &seconds) && minutes < 60 &&
        seconds <= 60 && first < 24 &&
        (prefix->ns = ((first * 60 + minutes) * 60 + seconds) * 1000000000, scan_micros(at, false, &prefix->ns)))
      prefix->time = TIME_OF_DAY;
  } else if (prefix->ns = first * 1000000000, scan_micros(at, true, &prefix->ns)) {
    prefix->time = first < MOST_SECONDS_BETWEEN_LINES ? TIME_SINCE_LINE : TIME_SINCE_EPOCH;
  }
  if (prefix->time == NO_TIME)
    *at = from;
}

/* Skips "[INSTRUCTION] ", if there is one. */
static bool skip_instruction(const char **at) {
  const char *from = *at;
  uint64_t instruction;
  if (scan_word(at, "[") && scan_hex(at, &instruction) && scan_word(at, "] "))
    return true;
  *at = from;
  return false;
}

/* Skips all that stands before a line's text. Returns whether anything but a thread does. */
static bool scan_prefix(const char **at, struct prefix *prefix) {
  *prefix = (struct prefix){0};
  skip_spaces(at);
  prefix->id = scan_id(at);
  skip_spaces(at);
  if ((**at < '0' || **at > '9') && **at != '[') /* most lines */
    return false;
  scan_time(at, prefix);
  skip_spaces(at);
  bool instruction = skip_instruction(at);
  skip_spaces(at);
  return prefix->time != NO_TIME || instruction;
}

/* Skips "OBJECT->", and scans the call's name up to its bracket, or to @LIBRARY. */
static bool scan_call_name(const char **at, char *name, size_t room) {
  size_t length = strcspn(*at, "(");
  if ((*at)[length] != '(')
    return false;
  const char *from = *at;
  for (const char *next; (next = memmem(from, (size_t)(*at + length - from), "->", 2));)
    from = next + 2;
  const char *library = memchr(from, '@', (size_t)(*at + length - from));
  size_t name_length = (size_t)((library ? library : *at + length) - from);
  if (name_length == 0 || name_length >= room)
    return false;
  memcpy(name, from, name_length);
  name[name_length] = '\0';
  *at += length + 1;
  return true;
}

/* The call's id; CALL_LIMIT for a call that is not of the family. */
static int call_named(const char *name) {
  static const struct {
    const char *name;
    int call;
  } family[] = {{"malloc", CALL_malloc},
                {"free", CALL_free},
                {"calloc", CALL_calloc},
                {"realloc", CALL_realloc},
                {"_Znwm", CALL_new},
                {"_ZdlPv", CALL_delete},
                {"_ZdlPvm", CALL_delete},
                {"_Znam", CALL_new_array},
                {"_ZdaPv", CALL_delete_array},
                {"_ZdaPvm", CALL_delete_array},
                {"reallocarray", CALL_reallocarray},
                {"posix_memalign", CALL_posix_memalign},
                {"memalign", CALL_memalign},
                {"aligned_alloc", CALL_aligned_alloc},
                {"valloc", CALL_valloc},
                {"pvalloc", CALL_pvalloc},
                {"cfree", CALL_free},
                {"mallopt", CALL_mallopt},
                {"malloc_trim", CALL_malloc_trim},
                {"mallinfo", CALL_mallinfo},
                {"mallinfo2", CALL_mallinfo2},
                {"malloc_info", CALL_malloc_info},
                {"malloc_stats", CALL_malloc_stats}};
  for (size_t i = 0; i < sizeof family / sizeof *family; i++)
    if (strcmp(name, family[i].name) == 0)
      return family[i].call;
  return CALL_LIMIT;
}

static bool recognises(const char *line) {
  char name[24];
  const char *at = line;
  struct prefix prefix;
  bool has_prefix = scan_prefix(&at, &prefix);
  if (!scan_call_name(&at, name, sizeof name) || call_named(name) == CALL_LIMIT)
    return false;
  /* "malloc(24) = 0x10" alone could be from any tool: ltrace prints the caller's object or a time before it, or pads
     the result. */
  return has_prefix || strstr(line, "->") != NULL || strstr(line, ")   ") != NULL ||
         strstr(line, "<unfinished ...>") != NULL;
}

static bool scan_number(const char **at, uint64_t *value) {
  return scan_hex(at, value) || scan_decimal(at, value) ||
         ((scan_word(at, "nil") || scan_word(at, "(nil)") || scan_word(at, "NULL")) && (*value = 0, true));
}

static bool scan_argument(const char **at, uint64_t *value, bool first) {
  return (first || scan_word(at, ", ")) && scan_number(at, value);
}

static bool scan_arguments(const char **at, struct open_call *call) {
  const struct call_info *info = &call_table[call->event.call];
  struct trace_event *event = &call->event;
  bool first = true;
  uint64_t out;
  if (call->addressless) {
    if (!scan_argument(at, &out, first))
      return false;
    first = false;
  }
  if (info->released != NOTHING) {
    if (!scan_argument(at, &event->released, first))
      return false;
    event->call |= event->released ? 0 : CALL_NULL_IN;
    first = false;
  }
  if (info->param != NONE) {
    if (!scan_argument(at, &event->param, first))
      return false;
    first = false;
  }
  return !info->has_size || scan_argument(at, &event->size_bytes, first);
}

static int begin(struct ltrace_import *ltrace, bool threads) {
  const struct import_facts facts = {
      .clock = ltrace->timed ? "nanoseconds" : "counter",
      .order = "logged",
      .source = "ltrace",
      .origin_stamp = ltrace->timed,
      .lacks = threads && ltrace->timed ? "start calls usable_size"
               : threads                ? "start calls times usable_size"
               : ltrace->timed          ? "start calls threads usable_size"
                                        : "start calls times threads usable_size",
      .note = "Calls of the program itself; those that its libraries make are not in the recording unless requested. "
              "posix_memalign does not give the address: its calls are gaps."};
  return import_begin(ltrace->import, &facts);
}

static struct open_call *open_call_of(struct ltrace_import *ltrace, uint64_t id) {
  uint32_t number;
  if (!thread_number(&ltrace->callers, id, &number))
    return NULL;
  struct open_call *open = vector_reach(&ltrace->open, number);
  if (open)
    open->id = id;
  return open;
}

/* "= RESULT" at the line's end, or before its duration (-T). */
static bool scan_result(const char *at, uint64_t *result) {
  const char *equals = strchr(at, '=');
  while (equals && (equals == at || equals[-1] != ' ' || equals[1] != ' '))
    equals = strchr(equals + 1, '=');
  if (!equals)
    return false;
  equals += 2;
  *result = 0;
  if (!scan_word(&equals, "<void>") && !scan_number(&equals, result))
    return false;
  uint64_t seconds, micros;
  return *equals == '\0' || (scan_word(&equals, " <") && scan_decimal(&equals, &seconds) && scan_word(&equals, ".") &&
                             scan_decimal(&equals, &micros) && scan_word(&equals, ">") && *equals == '\0');
}

static int end_call(struct ltrace_import *ltrace, struct open_call *call, uint64_t result) {
  struct trace_event event = call->event;
  call->any = false;
  if (call->addressless && result == 0) {
    call->unseen++;
    return 0;
  }
  if (call->addressless) /* its result is an error number */
    result = 0;
  if (call_table[event.call & CALL_ID_MASK].acquires) {
    event.acquired = result;
    event.call |= result ? 0 : CALL_NULL_OUT;
  }
  event.acquire_stamp = ltrace->stamp;
  if (trace_event_steps(&event) == 1 && trace_event_takes(&event))
    event.acquire_stamp = event.release_stamp;
  return import_event(ltrace->import, call->id, &event);
}

static int take_begin(struct ltrace_import *ltrace, struct open_call *open, const char *line, const char *at,
                      const char *name) {
  int id = call_named(name);
  const char *mark = strchr(at, '<');
  bool unfinished = mark && (strstr(mark, "<unfinished ...>") || strstr(mark, "<no return ...>"));
  uint64_t result;
  if (id == CALL_LIMIT)
    return 0;
  if (open->any) {
    open->nested += unfinished;
    ltrace->nested++;
    return 0;
  }
  struct open_call call = {.id = open->id,
                           .unseen = open->unseen,
                           .any = true,
                           .taken = true,
                           .addressless = id == CALL_posix_memalign,
                           .event = {.call = (uint8_t)id, .release_stamp = ltrace->stamp}};
  memcpy(call.name, name, strlen(name) + 1);
  if (!scan_arguments(&at, &call))
    return import_bad_line(ltrace->import, "ltrace text", line);
  *open = call;
  if (unfinished)
    return 0;
  if (!scan_result(at, &result))
    return import_bad_line(ltrace->import, "ltrace text", line);
  return end_call(ltrace, open, result);
}

static int take_resumed(struct ltrace_import *ltrace, struct open_call *open, const char *line, const char *at) {
  size_t length = strcspn(at, " ");
  uint64_t result;
  char name[24];
  if (length >= sizeof name)
    return 0; /* no call of the family has such a name */
  memcpy(name, at, length);
  name[length] = '\0';
  open->forked =
      open->id && (strcmp(name, "fork") == 0 || strcmp(name, "vfork") == 0) && scan_result(at, &result) && result == 0;
  if (call_named(name) == CALL_LIMIT)
    return 0;
  if (!open->any)
    return line_reader_error(ltrace->import->lines, "%s ends here, but has not begun", name);
  if (open->nested) {
    open->nested--;
    return 0;
  }
  if (strcmp(name, open->name) != 0)
    return line_reader_error(ltrace->import->lines, "%s ends here, but %s has begun", name, open->name);
  if (!scan_result(at, &result))
    return import_bad_line(ltrace->import, "ltrace text", line);
  return end_call(ltrace, open, result);
}

/* Stamps rise from line to line, as the file's order is that of the steps: a time of a whole second has many. */
static void stamp_line(struct ltrace_import *ltrace, const struct prefix *prefix) {
  if (prefix->time == NO_TIME) {
    ltrace->stamp++;
    return;
  }
  uint64_t ns = prefix->ns;
  if (prefix->time == TIME_SINCE_LINE)
    ns += ltrace->last_ns;
  else if (prefix->time == TIME_OF_DAY)
    ns += ltrace->last_ns / DAY_NS * DAY_NS;
  if (prefix->time == TIME_OF_DAY && ns + DAY_NS / 2 < ltrace->last_ns) /* midnight has passed */
    ns += DAY_NS;
  if (ns > UINT64_MAX / 2)
    ns = ltrace->last_ns;
  if (!ltrace->import->writer && !ltrace->timed) {
    ltrace->timed = true;
    ltrace->first_ns = ns;
  }
  ltrace->last_ns = ns;
  uint64_t stamp = ltrace->timed && ltrace->last_ns > ltrace->first_ns ? ltrace->last_ns - ltrace->first_ns + 1 : 1;
  ltrace->stamp = stamp > ltrace->stamp ? stamp : ltrace->stamp + 1;
}

static int error_of_child(struct ltrace_import *ltrace, uint64_t id) {
  return line_reader_error(ltrace->import->lines,
                           "process %" PRIu64 " is a child of the program, and was taken for a thread: record with "
                           "-e fork+vfork+malloc+..., or without -f",
                           id);
}

/* "+++ exited", "--- SIGNAL ---": tells a child, whose fork was not traced, from a thread. It runs a program of its
   own, its end is signalled, or it outlives the first thread, which a thread does not. */
static int take_mark(struct ltrace_import *ltrace, uint64_t id, const char *at) {
  struct open_call *open = id ? open_call_of(ltrace, id) : NULL;
  if (!open)
    return id ? import_no_memory(ltrace->import) : 0;
  if (strncmp(at, "+++ ", 4) == 0) {
    ltrace->ended_id = id;
    ltrace->ended |= id == ltrace->first_id;
  } else if (strncmp(at, "--- Called exec()", 17) == 0) {
    if (open->taken && !open->forked)
      return line_reader_error(ltrace->import->lines,
                               "process %" PRIu64 " becomes another program here (exec): record that one itself", id);
    open->forked = ltrace->first_id && id != ltrace->first_id;
  } else if (strncmp(at, "--- SIGCHLD", 11) == 0 && ltrace->ended_id) {
    const struct open_call *child = open_call_of(ltrace, ltrace->ended_id);
    if (!child)
      return import_no_memory(ltrace->import);
    if (child->taken && !child->forked)
      return error_of_child(ltrace, child->id);
  }
  return 0;
}

static int take_line(void *context, const char *line) {
  struct ltrace_import *ltrace = context;
  const char *at = line;
  struct prefix prefix;
  scan_prefix(&at, &prefix);
  stamp_line(ltrace, &prefix);
  char name[24];
  if (*at == '\0')
    return 0;
  if (strncmp(at, "+++ ", 4) == 0 || strncmp(at, "--- ", 4) == 0)
    return take_mark(ltrace, prefix.id, at);
  if (strncmp(at, "unexpected breakpoint", 21) == 0) {
    ltrace->doubts++;
    return 0;
  }
  bool resumed = scan_word(&at, "<... ");
  if (!resumed && !scan_call_name(&at, name, sizeof name)) {
    if (strchr(at, '('))
      return 0; /* a call with a longer name */
    return import_bad_line(ltrace->import, "ltrace text", line);
  }
  if (!ltrace->import->writer && begin(ltrace, prefix.id != 0) != 0)
    return -1;
  struct open_call *open = open_call_of(ltrace, prefix.id);
  if (!open)
    return import_no_memory(ltrace->import);
  if (!ltrace->first_id)
    ltrace->first_id = prefix.id;
  if (open->forked) {
    ltrace->forked++;
    return 0;
  }
  if (ltrace->ended && prefix.id != ltrace->first_id)
    return error_of_child(ltrace, prefix.id);
  bool taken = open->taken;
  int result = resumed ? take_resumed(ltrace, open, line, at) : take_begin(ltrace, open, line, at, name);
  ltrace->unsure += ltrace->forked && open->taken && !taken;
  return result;
}

/* Calls whose address ltrace does not print become gaps at their thread's end; calls that never ended are counted. */
static int finish(struct ltrace_import *ltrace) {
  struct import *import = ltrace->import;
  uint64_t never_ended = 0, unseen = 0;
  uint32_t thread;
  for (uint32_t i = 0; i < ltrace->callers.count; i++) {
    struct open_call *call = &ltrace->open.at[i];
    never_ended += call->any;
    unseen += call->unseen;
    if (call->unseen &&
        (import_thread(import, call->id, &thread) != 0 ||
         trace_writer_gap(import->writer, thread, call->unseen, "posix_memalign: ltrace does not give the address")))
      return -1;
  }
  if (ltrace->doubts)
    import_note(import, "ltrace met %" PRIu64 " unexpected breakpoints: it may have missed calls", ltrace->doubts);
  if (ltrace->nested)
    import_note(import, "%" PRIu64 " calls inside other calls left out", ltrace->nested);
  if (ltrace->forked)
    import_note(import, "%" PRIu64 " lines of processes that the program forked left out", ltrace->forked);
  if (ltrace->unsure)
    import_note(import, "%" PRIu64 " threads that began after that may be theirs", ltrace->unsure);
  if (unseen)
    import_note(import, "%" PRIu64 " posix_memalign calls, whose address ltrace does not give, became gaps", unseen);
  if (never_ended)
    import_note(import, "%" PRIu64 " calls that never ended left out", never_ended);
  return 0;
}

static int run(struct import *import) {
  struct ltrace_import ltrace = {.import = import};
  int result = address_map_init(&ltrace.callers.map) ? 0 : import_no_memory(import);
  if (result == 0)
    result = import_lines(import, take_line, &ltrace);
  if (result == 0)
    result = finish(&ltrace);
  address_map_free(&ltrace.callers.map);
  free(ltrace.open.at);
  return result;
}

static const struct import_format import_format = {
    .recognises_line = recognises, .run = run, .without_calls = "has no line of ltrace text"};

REGISTER_FORMAT(.name = "ltrace", .description = "ltrace's text (convert/formats/ltrace.c)", .import = &import_format);

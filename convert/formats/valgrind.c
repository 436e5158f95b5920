/* SPDX-License-Identifier: MIT */
/* What `valgrind --trace-malloc=yes PROGRAM` prints on standard error or to --log-file:

     ==28947== Memcheck, a memory error detector            left out, like all lines that do not begin with --PID--
     --28947-- malloc(942) = 0x4A42040                      malloc(942) = 0x4a42040
     --28947-- calloc(3,65) = 0x4A436B0                     calloc(3, 65)
     --28947-- memalign(al 64, size 47) = 0x4A42480         memalign(64, 47): aligned_alloc and the like look so too
     --28947-- realloc(0x0,2907)malloc(2907) = 0x4A437C0    realloc(NULL, 2907)
     --28947-- realloc(0x4A42C00,3777) = 0x4A47E70
     --28947-- realloc(0x4A42080,0)free(0x4A42080)          realloc(..., 0), which frees; its result is on the
     --28947--  = 0                                         next line
     --28947-- _Znwm(24) = 0x4A47E70                        operator new(24)
     --28947-- _ZnwmSt11align_val_t(size 128, al 64) = ...  operator new(128, align 64)
     --28947-- _ZdlPvm(0x4D70100)                           operator delete: its size and alignment are missing
     --28947-- malloc_usable_size(0x4A47E70) = 24
     --28947-- mallinfo()                                   of the calls that set malloc up it prints no other
     --28947-- free(0x4A42520)

   With --time-stamp=yes the prefix is --00:00:00:01.554 28947--: days, hours, minutes, seconds and ms since the start.
   Where valgrind-listener has taken it (--log-socket), (1) stands before it, the connection's number.

   valgrind runs one thread at a time, so the file's order is the calls'; it does not give the thread. At the end
   valgrind itself frees the memory of the C library, unless --run-libc-freeres=no is given. */
#include "convert/foreign/format.h"

struct valgrind_import {
  struct import *import;
  bool unfinished; /* a call whose result has not come yet */
  bool timed;
  uint64_t now; /* stamp: ns since the start, plus 1; without times the line's number */
  struct trace_event event;
};

/* Names as valgrind prints them. For sized and aligned deletes it prints only the pointer. */
static const struct valgrind_name {
  const char *name;
  uint8_t call;
} names[] = {{"malloc", CALL_malloc},
             {"calloc", CALL_calloc},
             {"realloc", CALL_realloc},
             {"memalign", CALL_memalign},
             {"free", CALL_free},
             {"malloc_usable_size", CALL_malloc_usable_size},
             {"mallinfo", CALL_mallinfo},
             {"_Znwm", CALL_new},
             {"_Znam", CALL_new_array},
             {"_ZnwmRKSt9nothrow_t", CALL_new_nothrow},
             {"_ZnamRKSt9nothrow_t", CALL_new_array_nothrow},
             {"_ZnwmSt11align_val_t", CALL_new_aligned},
             {"_ZnamSt11align_val_t", CALL_new_array_aligned},
             {"_ZnwmSt11align_val_tRKSt9nothrow_t", CALL_new_aligned_nothrow},
             {"_ZnamSt11align_val_tRKSt9nothrow_t", CALL_new_array_aligned_nothrow},
             {"_ZdlPv", CALL_delete},
             {"_ZdaPv", CALL_delete_array},
             {"_ZdlPvm", CALL_delete},
             {"_ZdaPvm", CALL_delete_array},
             {"_ZdlPvRKSt9nothrow_t", CALL_delete_nothrow},
             {"_ZdaPvRKSt9nothrow_t", CALL_delete_array_nothrow},
             {"_ZdlPvSt11align_val_t", CALL_delete},
             {"_ZdaPvSt11align_val_t", CALL_delete_array},
             {"_ZdlPvmSt11align_val_t", CALL_delete},
             {"_ZdaPvmSt11align_val_t", CALL_delete_array},
             {"_ZdlPvSt11align_val_tRKSt9nothrow_t", CALL_delete_nothrow},
             {"_ZdaPvSt11align_val_tRKSt9nothrow_t", CALL_delete_array_nothrow}};

/* Skips "NAME(". NULL if it is not a call of malloc's family. */
static const struct valgrind_name *scan_call_name(const char **at) {
  size_t length = strcspn(*at, "(");
  if ((*at)[length] != '(')
    return NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strlen(names[i].name) == length && memcmp(*at, names[i].name, length) == 0) {
      *at += length + 1;
      return &names[i];
    }
  }
  return NULL;
}

/* "00:00:00:01.554 ", all but the first number, which is the first of days, hours, minutes, seconds and ms. */
static __attribute__((noinline)) bool scan_rest_of_time(const char **at, uint64_t days, uint64_t *ns) {
  uint64_t hours, minutes, seconds, ms;
  if (days > 10000 || !scan_word(at, ":") || !scan_decimal(at, &hours) || !scan_word(at, ":") ||
      !scan_decimal(at, &minutes) || !scan_word(at, ":") || !scan_decimal(at, &seconds) || !scan_word(at, ".") ||
      !scan_decimal(at, &ms) || !scan_word(at, " ") || hours > 23 || minutes > 59 || seconds > 60 || ms > 999)
    return false;
  *ns = ((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + ms) * 1000000;
  return true;
}

/* *stamp becomes the time as a stamp; 0: none. */
static bool scan_prefix(const char **at, uint64_t *pid, uint64_t *stamp) {
  const char *from = *at;
  uint64_t ns, connection;
  *stamp = 0;
  if (scan_word(at, "(") && !(scan_decimal(at, &connection) && scan_word(at, ") "))) {
    *at = from;
    return false;
  }
  if (scan_word(at, "--") && scan_decimal(at, pid)) {
    if (scan_word(at, "-- "))
      return true;
    if (scan_rest_of_time(at, *pid, &ns) && scan_decimal(at, pid) && scan_word(at, "-- ")) {
      *stamp = ns + 1;
      return true;
    }
  }
  *at = from;
  return false;
}

static bool recognises(const char *line) {
  uint64_t pid, stamp;
  return scan_prefix(&line, &pid, &stamp) && scan_call_name(&line);
}

static bool scan_separator(const char **at) {
  return scan_word(at, ", ") || scan_word(at, ",");
}

/* "al 64, size 100" (memalign) or "size 100, al 64" (operator new). */
static bool scan_aligned(const char **at, struct trace_event *event) {
  if (scan_word(at, "al "))
    return scan_decimal(at, &event->param) && scan_separator(at) && scan_word(at, "size ") &&
           scan_decimal(at, &event->size_bytes);
  return scan_word(at, "size ") && scan_decimal(at, &event->size_bytes) && scan_separator(at) && scan_word(at, "al ") &&
         scan_decimal(at, &event->param);
}

static bool scan_arguments(const char **at, struct trace_event *event) {
  const struct call_info *info = &call_table[event->call];
  bool good = true;
  if (info->released != NOTHING) {
    good = scan_hex(at, &event->released);
    event->call |= event->released ? 0 : CALL_NULL_IN;
    if (info->acquires)
      good = good && scan_separator(at) && scan_decimal(at, &event->size_bytes);
  } else if (info->param == ALIGN) {
    good = scan_aligned(at, event);
  } else {
    if (info->param == COUNT)
      good = scan_decimal(at, &event->param) && scan_separator(at);
    good = good && (!info->has_size || scan_decimal(at, &event->size_bytes));
  }
  return good && scan_word(at, ")");
}

/* Scans the result, after text that valgrind may print before it: the malloc or free of a realloc, or a complaint. */
static bool scan_result(const char *at, uint64_t *result) {
  const char *found = NULL;
  for (const char *next = strstr(at, " = "); next; next = strstr(next + 1, " = "))
    found = next + 3;
  return found && (scan_hex(&found, result) || scan_decimal(&found, result)) && *found == '\0';
}

static int finish_call(struct valgrind_import *valgrind, uint64_t result) {
  struct trace_event *event = &valgrind->event;
  valgrind->unfinished = false;
  if (call_table[event->call & CALL_ID_MASK].acquires) {
    event->acquired = result;
    event->call |= result ? 0 : CALL_NULL_OUT;
  }
  return import_only_thread(valgrind->import, valgrind->now, event);
}

static int begin(struct import *import, bool timed) {
  const struct import_facts facts = {
      .clock = timed ? "nanoseconds" : "ordinal",
      .origin_stamp = timed,
      .order = "file",
      .source = "valgrind --trace-malloc",
      .pid = import->pid,
      .lacks = timed ? "start threads names usable_size" : "start threads times names usable_size",
      .note = "aligned_alloc, posix_memalign, valloc and the like are memalign here, reallocarray is realloc. valgrind "
              "runs one thread at a time. The frees at the end may be its own (--run-libc-freeres)."};
  return import_begin(import, &facts);
}

static int take_call(struct valgrind_import *valgrind, const char *line, const char *at,
                     const struct valgrind_name *name) {
  struct trace_event *event = &valgrind->event;
  uint64_t result;
  *event = (struct trace_event){.call = name->call};
  if (!scan_arguments(&at, event))
    return import_bad_line(valgrind->import, "valgrind --trace-malloc", line);
  const struct call_info *info = &call_table[name->call];
  if (!info->acquires && info->released != TOUCHES)
    return *at ? import_bad_line(valgrind->import, "valgrind --trace-malloc", line) : finish_call(valgrind, 0);
  if (scan_result(at, &result))
    return finish_call(valgrind, result);
  valgrind->unfinished = true;
  return 0;
}

static int take_line(void *context, const char *line) {
  struct valgrind_import *valgrind = context;
  const char *at = line;
  uint64_t pid, result, stamp;
  if (!scan_prefix(&at, &pid, &stamp))
    return 0;
  const char *rest = at;
  const struct valgrind_name *name = scan_call_name(&rest);
  bool continues = valgrind->unfinished && scan_result(at, &result);
  if (!name && !continues)
    return 0; /* another message of valgrind */
  int wanted = import_process(valgrind->import, pid);
  if (wanted <= 0)
    return wanted;
  if (!valgrind->import->writer) {
    valgrind->timed = stamp != 0;
    if (begin(valgrind->import, valgrind->timed) != 0)
      return -1;
  }
  valgrind->now = valgrind->timed ? stamp : line_reader_number(valgrind->import->lines);
  if (!name)
    return finish_call(valgrind, result);
  if (valgrind->unfinished)
    return line_reader_error(valgrind->import->lines, "the call before has no result");
  return take_call(valgrind, line, rest, name);
}

static int run(struct import *import) {
  struct valgrind_import valgrind = {.import = import};
  if (import_lines(import, take_line, &valgrind) != 0)
    return -1;
  if (valgrind.unfinished)
    import_note(import, "the last call has no result: left out");
  return 0;
}

static const struct import_format import_format = {
    .recognises_line = recognises, .run = run, .without_calls = "has no line of valgrind --trace-malloc=yes"};

REGISTER_FORMAT(.name = "valgrind",
                .description = "what valgrind --trace-malloc=yes prints (convert/formats/valgrind.c)",
                .import = &import_format);

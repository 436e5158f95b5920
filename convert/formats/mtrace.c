/* SPDX-License-Identifier: MIT */
/* glibc's mtrace(3), the text that $MALLOC_TRACE names (since glibc 2.34 with libc_malloc_debug.so.0 preloaded):

     = Start
     @ ./prog:[0x141f] + 0x559bf01014a0 0x3ae              malloc(0x3ae)
     @ ./prog:(main+0x20)[0x1333] - 0x559bf01014a0         free
     @ ./prog:[0x12e7] < 0x559bf0101f40                    realloc of this ...
     @ ./prog:[0x12e7] > 0x559bf0105e70 0xec1              ... to that, 0xec1 bytes
     @ ./prog:[0x12e7] ! 0x559bf0105e70 0x4000000000000000 failed realloc
     - 0x559bf0105e70                                      (the caller may be missing)
     = End

   become malloc(942), free(...), realloc(...). calloc and the aligned calls look like malloc; realloc(p, 0) is logged
   as `-`, realloc(NULL, n) as `+`; free(NULL) is not logged. A failed malloc is `+ (nil) SIZE`. A realloc is logged
   after the call: if the old address was handed out again before that, its release is moved to its place
   (late_releases.h). */
#include "convert/formats/exporting.h"
#include "convert/formats/late_releases.h"

#include <inttypes.h>

struct mtrace_import {
  struct import *import;
  struct late_releases *late;
  bool reallocs; /* a `<` waits for its `>` */
  uint64_t realloc_from;
};

static bool recognises(const char *line) {
  return strcmp(line, "= Start") == 0;
}

static int begin(struct import *import) {
  static const struct import_facts facts = {
      .clock = "ordinal",
      .order = "file",
      .source = "glibc mtrace",
      .lacks = "start threads times names alignment usable_size",
      .note =
          "calloc and aligned calls are mallocs here, realloc(p, 0) is a free, realloc(NULL, n) a malloc; free(NULL) "
          "is not in the recording."};
  return import_begin(import, &facts);
}

/* Skips "@ CALLER ", which may contain spaces: the sign of the call is the last one with a space on both sides and an
   address after it. */
static const char *call_of(const char *line) {
  if (line[0] != '@' && line[0] != '[') /* some versions leave the @ out */
    return line;
  const char *found = NULL;
  for (const char *at = strchr(line, ' '); at; at = strchr(at + 1, ' '))
    if (at[1] && at[2] == ' ' && strchr("+-<>!", at[1]))
      found = at + 1;
  return found;
}

static bool scan_address(const char **at, uint64_t *address) {
  *address = 0;
  return scan_word(at, "(nil)") || scan_hex(at, address);
}

/* printf's %#lx, which writes 0 as "0". */
static bool scan_size(const char **at, uint64_t *size_bytes) {
  return scan_hex(at, size_bytes) || (scan_decimal(at, size_bytes) && *size_bytes == 0);
}

static int take_call(struct mtrace_import *mtrace, const char *line) {
  const char *at = call_of(line);
  uint64_t address, size_bytes = 0, now = line_reader_number(mtrace->import->lines);
  if (!at || !*at || at[1] != ' ')
    return import_bad_line(mtrace->import, "mtrace text", line);
  char kind = *at;
  bool sized = kind == '+' || kind == '>' || kind == '!';
  at += 2;
  if ((!sized && kind != '-' && kind != '<') || !scan_address(&at, &address) ||
      (sized && (!scan_word(&at, " ") || !scan_size(&at, &size_bytes))) || *at || (!address && kind != '+'))
    return import_bad_line(mtrace->import, "mtrace text", line);
  if ((kind == '>') != mtrace->reallocs)
    return line_reader_error(mtrace->import->lines,
                             kind == '>' ? "'>' without a '<' before it" : "'<' without a '>' after it");
  mtrace->reallocs = kind == '<';
  struct trace_event event;
  switch (kind) {
  case '<':
    mtrace->realloc_from = address;
    return 0;
  case '>':
    event = event_of_realloc(CALL_realloc, mtrace->realloc_from, address, size_bytes, 0);
    return late_releases_event(mtrace->late, now, &event, true);
  case '!':
    event = event_of_realloc(CALL_realloc, address, 0, size_bytes, 0);
    return late_releases_event(mtrace->late, now, &event, false);
  case '+':
    event = event_of_acquire(CALL_malloc, address, size_bytes, 0);
    return late_releases_event(mtrace->late, now, &event, false);
  default:
    event = event_of_release(CALL_free, address);
    return late_releases_event(mtrace->late, now, &event, false);
  }
}

static int take_line(void *context, const char *line) {
  struct mtrace_import *mtrace = context;
  bool begins = strcmp(line, "= Start") == 0;
  if (!mtrace->import->writer) {
    if (!begins)
      return line_reader_error(mtrace->import->lines, "not mtrace text: it must begin with '= Start'");
    return begin(mtrace->import);
  }
  if (begins || strcmp(line, "= End") == 0)
    return 0; /* muntrace, and mtrace again */
  return take_call(mtrace, line);
}

static int finish(struct mtrace_import *mtrace) {
  struct import *import = mtrace->import;
  if (mtrace->reallocs)
    return error_set(import->error, import->path, "ends inside a realloc");
  return late_releases_finish(mtrace->late);
}

static int run_import(struct import *import) {
  struct mtrace_import mtrace = {.import = import, .late = late_releases_new(import)};
  int result = mtrace.late ? import_lines(import, take_line, &mtrace) : -1;
  if (result == 0)
    result = finish(&mtrace);
  late_releases_free(mtrace.late);
  return result;
}

static const struct import_format import_format = {
    .recognises_line = recognises, .run = run_import, .without_calls = "not mtrace text: it is empty"};

/* glibc's mtrace(3) text (shown above).

   The format has malloc, realloc and free of one thread in order. All other calls that acquire become malloc, of the
   product for calloc and reallocarray. Lost: threads, times, alignments, free(NULL), malloc_usable_size, failed
   reallocs, and everything in the trace besides its calls. */

static int take(struct export *export, const struct export_call *call) {
  FILE *out = export->out;
  if (call->kind == EXPORT_FREE && !call->released)
    export->lost.null_frees++;
  else if (call->kind == EXPORT_FREE)
    fprintf(out, "@ heaptape:[0x1] - 0x%" PRIx64 "\n", call->released);
  else if (call->kind == EXPORT_REALLOC && call->released)
    fprintf(out, "@ heaptape:[0x1] < 0x%" PRIx64 "\n@ heaptape:[0x1] > 0x%" PRIx64 " 0x%" PRIx64 "\n", call->released,
            call->acquired, call->bytes);
  else if (call->acquired)
    fprintf(out, "@ heaptape:[0x1] + 0x%" PRIx64 " 0x%" PRIx64 "\n", call->acquired, call->bytes);
  else
    fprintf(out, "@ heaptape:[0x1] + (nil) 0x%" PRIx64 "\n", call->bytes);
  return ferror(out) ? export_write_failed(export) : 0;
}

static int run_export(struct export *export) {
  struct witness witness;
  export->take = take;
  export->one_line_reallocs = true;
  export->keeps_failures = true;
  fputs("= Start\n", export->out);
  int result = export_calls(export, &witness);
  fputs("= End\n", export->out);
  return result;
}

static const struct export_format export_format = {export_trace, run_export};

REGISTER_FORMAT(.name = "mtrace", .description = "glibc mtrace(3) text (convert/formats/mtrace.c)", .suffix = ".mtrace",
                .import = &import_format, .export = &export_format);

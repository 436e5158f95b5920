/* SPDX-License-Identifier: MIT */
#include "core/command/diagnostics.h"

#include "core/base/error.h"
#include "core/base/os.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct diagnostics diagnostics;

static bool is_set(const char *name) {
  const char *value = getenv(name);
  return value && *value;
}

static bool is_coloured(void) {
  if (diagnostics.color != DIAGNOSTICS_AUTO)
    return diagnostics.color == DIAGNOSTICS_ALWAYS;
  const char *terminal = getenv("TERM");
  return !is_set("NO_COLOR") && isatty(STDERR_FILENO) == 1 && terminal && strcmp(terminal, "dumb") != 0;
}

/* Colours only the name: the text after it may contain anything. */
static void begin(const char *program, const char *sequence) {
  int error = errno; /* isatty sets it */
  if (is_coloured())
    fprintf(stderr, "\033[%sm%s:\033[0m ", sequence, program);
  else
    fprintf(stderr, "%s: ", program);
  errno = error;
}

void diagnostics_begin_error(const char *program) {
  begin(program, "1;31");
}

static bool ends_with(const char *text, const char *end) {
  size_t bytes = strlen(text), end_bytes = strlen(end);
  return bytes >= end_bytes && memcmp(text + bytes - end_bytes, end, end_bytes) == 0;
}

/* Names what this system lacks and may be the cause: a limit, or /proc. A thread that finds no address space for its
   stack fails with EAGAIN, too. */
static void print_limit(const char *text) {
  bool processes = ends_with(text, strerror(EAGAIN));
  struct rlimit space, most;
  if ((ends_with(text, strerror(ENOENT)) || strncmp(text, "/proc/", 6) == 0) && access("/proc/self", F_OK) != 0)
    fputs(" (needs /proc: mount -t proc proc /proc)", stderr);
  if (!processes && !ends_with(text, strerror(ENOMEM)) && !ends_with(text, "out of memory"))
    return;
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    fprintf(stderr, " (ulimit -v is %ju KiB)", (uintmax_t)space.rlim_cur / 1024);
  else if (processes && getrlimit(RLIMIT_NPROC, &most) == 0 && most.rlim_cur != RLIM_INFINITY)
    fprintf(stderr, " (ulimit -u is %ju)", (uintmax_t)most.rlim_cur);
}

static void finish(const char *format, va_list arguments) {
  int error = errno;
  char text[1024], shown[1024];
  vsnprintf(text, sizeof text, format, arguments);
  fputs(escape_controls(shown, sizeof shown, text), stderr);
  print_limit(text);
  fputc('\n', stderr);
  errno = error;
}

void diagnostics_error(const char *program, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  diagnostics_begin_error(program);
  finish(format, arguments);
  va_end(arguments);
}

void diagnostics_warning(const char *program, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  begin(program, "1;33");
  finish(format, arguments);
  va_end(arguments);
}

enum { NAME_BYTES = 40 };

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

/* How many bytes have to be inserted, removed or replaced to make one word of the other (Levenshtein). */
static size_t distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
  size_t row[NAME_BYTES + 1];
  for (size_t j = 0; j <= b_bytes; j++)
    row[j] = j;
  for (size_t i = 1; i <= a_bytes; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b_bytes; j++) {
      size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = least(replaced, least(row[j], row[j - 1]) + 1);
    }
  }
  return row[b_bytes];
}

struct nearest {
  const char *name;
  size_t distance; /* at first: the least that is too far */
};

/* False: the name is the word itself. */
static bool consider(struct nearest *nearest, const char *word, size_t bytes, const char *name) {
  size_t name_bytes = strlen(name);
  size_t now = name_bytes <= NAME_BYTES ? distance(word, bytes, name, name_bytes) : NAME_BYTES;
  if (now < nearest->distance)
    *nearest = (struct nearest){name, now};
  return now > 0;
}

static struct nearest nothing_near(size_t bytes) {
  return (struct nearest){NULL, bytes / 3 + 2};
}

const char *near_option(const char *word, const struct option *options) {
  if (strncmp(word, "--", 2) != 0)
    return NULL;
  size_t bytes = strcspn(word + 2, "=");
  struct nearest nearest = nothing_near(bytes);
  for (; bytes <= NAME_BYTES && options->name; options++)
    if (!consider(&nearest, word + 2, bytes, options->name))
      return NULL;
  return nearest.name;
}

const char *near_word(const char *word, const char *const *known) {
  size_t bytes = strlen(word);
  struct nearest nearest = nothing_near(bytes);
  for (; bytes <= NAME_BYTES && *known; known++)
    if (!consider(&nearest, word, bytes, *known))
      return NULL;
  return nearest.name;
}

#define SILENT_NS 2000000000u
#define INTERVAL_NS 250000000u

void progress_begin(struct progress *progress, const char *label, uint64_t total) {
  *progress = (struct progress){.label = label,
                                .total = total,
                                .began_ns = os_monotonic_ns(),
                                .terminal = isatty(STDERR_FILENO) == 1 && !diagnostics.quiet};
}

void progress_show(struct progress *progress, uint64_t done) {
  if (!progress->terminal)
    return;
  uint64_t now_ns = os_monotonic_ns();
  if (now_ns - progress->began_ns < SILENT_NS || now_ns - progress->shown_ns < INTERVAL_NS)
    return;
  progress->shown_ns = now_ns;
  progress->shown = true;
  double seconds = (double)(now_ns - progress->began_ns) / 1e9, millions = (double)done / 1e6;
  if (progress->total && done)
    fprintf(stderr, "\r%s: %.0f %%, %.1f million events/s, %.0f s left \033[K", progress->label,
            100.0 * (double)done / (double)progress->total, millions / seconds,
            seconds * ((double)progress->total / (double)done - 1.0));
  else
    fprintf(stderr, "\r%s: %.1f million events \033[K", progress->label, millions);
  fflush(stderr);
}

void progress_end(struct progress *progress) {
  if (progress->shown)
    fprintf(stderr, "\r\033[K");
}

/* SPDX-License-Identifier: MIT */
#include "core/command/diagnostics.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum { AUTO, ALWAYS, NEVER } color;
static bool quiet;

bool diagnostics_take(int option, const char *value) {
  static const char *const names[] = {[AUTO] = "auto", [ALWAYS] = "always", [NEVER] = "never"};
  if (option == DIAGNOSTICS_QUIET)
    return quiet = true;
  for (unsigned i = 0; option == DIAGNOSTICS_COLOR && i < sizeof names / sizeof *names; i++)
    if (strcmp(value, names[i]) == 0) {
      color = i;
      return true;
    }
  return false;
}

bool diagnostics_quiet(void) {
  return quiet;
}

static bool is_set(const char *name) {
  const char *value = getenv(name);
  return value && *value;
}

static bool is_coloured(void) {
  if (color != AUTO)
    return color == ALWAYS;
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

static void finish(const char *format, va_list arguments) {
  int error = errno;
  vfprintf(stderr, format, arguments);
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

/* SPDX-License-Identifier: MIT */
#include "core/base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void error_append(struct error *error, const char *format, va_list arguments) {
  size_t used = strlen(error->text);
  vsnprintf(error->text + used, sizeof error->text - used, format, arguments);
}

int error_at(struct error *error, const char *path, uint64_t offset, const char *format, ...) {
  if (error->text[0])
    return -1;
  snprintf(error->text, sizeof error->text, "%s: offset %" PRIu64 ": ", path, offset);
  va_list arguments;
  va_start(arguments, format);
  error_append(error, format, arguments);
  va_end(arguments);
  return -1;
}

int error_set(struct error *error, const char *path, const char *format, ...) {
  if (error->text[0])
    return -1;
  snprintf(error->text, sizeof error->text, "%s: ", path);
  va_list arguments;
  va_start(arguments, format);
  error_append(error, format, arguments);
  va_end(arguments);
  return -1;
}

int error_errno(struct error *error, const char *path, const char *what) {
  const char *reason = strerror(errno);
  return error_set(error, path, "%s: %s", what, reason);
}

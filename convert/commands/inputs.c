/* SPDX-License-Identifier: MIT */
#include "convert/commands/inputs.h"

#include "core/files/temporary_file.h"

#include <string.h>

const char *input_path(const char *path) {
  return strcmp(path, "-") == 0 ? "/dev/stdin" : path;
}

const struct format *input_format(const char *path, const char *from, struct error *error) {
  const struct format *found = format_detect(path, error);
  if (from && (found || strcmp(from, "tape") != 0)) {
    error->text[0] = '\0';
    return format_by_name(from);
  }
  return found;
}

static int open_imported(struct trace_reader **reader, const struct format *format, const char *path,
                         const struct import_options *options, struct error *error) {
  struct temporary_file temporary;
  if (temporary_file_open(&temporary, error) != 0)
    return -1;
  int result = import_file(format->import, path, options, temporary.path, error);
  if (result == 0)
    result = trace_reader_open(reader, temporary.path, error);
  temporary_file_close(&temporary);
  return result;
}

int input_open(struct trace_reader **reader, const char *path, const struct format *format,
               const struct import_options *options, struct error *error) {
  if (format->import)
    return open_imported(reader, format, path, options, error);
  if (strcmp(format->name, "tape") != 0)
    return error_set(error, path, "is a %s file, this needs a trace", format->name);
  return trace_reader_open(reader, input_path(path), error);
}

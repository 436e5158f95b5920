/* SPDX-License-Identifier: MIT */
#include "convert/commands/input.h"
#include "core/base/files.h"
#include "core/base/json.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

int failed(const struct error *error) {
  diagnostics_error(CONVERT, "%s", error->text[0] ? error->text : "failed");
  return EXIT_FAILED;
}

/* Version of the shapes that docs/formats/SCHEMAS.md names. */
enum { OUTPUT_SCHEMA = 1 };

int print_json(json_t *object) {
  json_t *whole = json_pack("{s:i}", "schema", OUTPUT_SCHEMA);
  json_object_update(whole, object);
  json_write(whole, JSON_INDENT(2) | JSON_REAL_PRECISION(12), stdout);
  printf("\n");
  json_decref(whole);
  json_decref(object);
  return cli_finish_output(CONVERT);
}

static void show_progress(void *context, uint64_t events) {
  progress_show(context, events);
}

struct history_options history_with_progress(struct progress *progress, const char *label,
                                             const struct trace_reader *reader) {
  progress_begin(progress, label, trace_reader_summary(reader)->events);
  return (struct history_options){.horizon_ns = -1, .progress = show_progress, .progress_context = progress};
}

const char *take_format(void *field, const char *value) {
  const struct format **format = field;
  return (*format = format_by_name(value)) ? NULL : "is no format: 'heaptape convert --list' shows them";
}

static const char *take_process(void *field, const char *value) {
  struct import_options *import = field;
  import->has_process = true;
  return cli_count(&import->process, value);
}

CLI_PLACE(input);
const struct cli_option input_options[] = {
    {"from", 0, "FMT", take_format, offsetof(struct input_settings, from),
     .help = "the format of the input, where its content does not tell", .group = "input"},
    {"allow-gaps", 0, NULL, cli_flag, offsetof(struct input_settings, import.allow_gaps),
     .help = "accept a recording that reports lost events; each loss becomes a gap in the trace", .group = "input"},
    {"process", 0, "PID", take_process, offsetof(struct input_settings, import),
     .help = "of a recording of several processes, take this one", .group = "input"},
    {CLI_ADDED(input), .field = offsetof(struct input_settings, import)},
    {.name = NULL},
};

const char *input_path(const char *path) {
  return strcmp(path, "-") == 0 ? "/dev/stdin" : path;
}

const struct format *input_format(const char *path, const struct input_settings *settings, struct error *error) {
  const struct format *found = format_detect(path, error);
  const struct format *from = settings->from ? settings->from : settings->import.implied;
  if (from && (found || strcmp(from->name, "tape") != 0)) {
    error->text[0] = '\0';
    return from;
  }
  return found;
}

int input_import(const char *path, const struct format *format, const struct input_settings *settings, const char *out,
                 struct error *error) {
  struct text_line report;
  struct import_options import = settings->import;
  import.report = &report;
  int result = import_file(format->import, path, &import, out, error);
  if (result == 0 && report.used)
    diagnostics_warning(CONVERT, "%s: %s", path, report.text);
  return result;
}

static int open_imported(struct trace_reader **reader, const char *path, const struct format *format,
                         const struct input_settings *settings, struct error *error) {
  struct temporary_file temporary;
  if (temporary_file_open(&temporary, error) != 0)
    return -1;
  int result = input_import(path, format, settings, temporary.path, error);
  if (result == 0)
    result = trace_reader_open(reader, temporary.path, error);
  temporary_file_close(&temporary);
  return result;
}

static int open_of_format(struct trace_reader **reader, const char *path, const struct format *format,
                          const struct input_settings *settings, struct error *error) {
  if (format->import)
    return open_imported(reader, path, format, settings, error);
  if (strcmp(format->name, "tape") != 0)
    return error_set(error, path, "is a %s file, this needs a trace", format->name);
  return trace_reader_open(reader, input_path(path), error);
}

int input_open_trace(struct trace_reader **reader, const char *path, const struct input_settings *settings,
                     struct error *error) {
  const struct format *format = input_format(path, settings, error);
  return format ? open_of_format(reader, path, format, settings, error) : -1;
}

int input_open(struct input *input, const char *path, const struct input_settings *settings, struct error *error) {
  *input = (struct input){.reader = NULL};
  const struct format *format = input_format(path, settings, error);
  if (!format)
    return -1;
  if (strcmp(format->name, "work") == 0)
    return workload_open(&input->workload, input_path(path), error);
  return open_of_format(&input->reader, path, format, settings, error);
}

void input_close(struct input *input) {
  trace_reader_close(input->reader);
  workload_close(&input->workload);
}

/* SPDX-License-Identifier: MIT */
/* heaptape-convert: its table of commands, and what they share. */
#include "convert/commands/commands.h"

#include "core/base/files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct cli_command *const commands[] = {
    &command_compile, &command_check,   &command_info,   &command_profile, &command_dump,  &command_convert,
    &command_reduce,  &command_windows, &command_distil, &command_names,   &command_spans, NULL};
const struct cli_program convert_program = {CONVERT, commands};

int failed(const struct error *error) {
  diagnostics_error(CONVERT, "%s", error->text[0] ? error->text : "failed");
  return EXIT_FAILED;
}

int finish_output(int status) {
  if (fflush(stdout) == 0 && !ferror(stdout))
    return status;
  diagnostics_error(CONVERT, "standard output: can't write: %s", strerror(errno));
  return EXIT_FAILED;
}

/* Version of the shapes that docs/formats/SCHEMAS.md names. */
enum { OUTPUT_SCHEMA = 1 };

int print_json(json_t *object) {
  json_t *whole = json_pack("{s:i}", "schema", OUTPUT_SCHEMA);
  json_object_update(whole, object);
  json_dumpf(whole, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
  printf("\n");
  json_decref(whole);
  json_decref(object);
  return finish_output(EXIT_DONE);
}

static void show_progress(void *context, uint64_t events) {
  progress_show(context, events);
}

struct history_options history_with_progress(struct progress *progress, const char *label,
                                             const struct trace_reader *reader) {
  progress_begin(progress, label, trace_reader_summary(reader)->events);
  return (struct history_options){.horizon_ns = -1, .progress = show_progress, .progress_context = progress};
}

int main(int argc, char **argv) {
  output_file_guard();
  return cli_main(&convert_program, argc, argv);
}

/* SPDX-License-Identifier: MIT */
#include "convert/commands/workload_input.h"

#include "convert/compile/compile.h"
#include "convert/commands/commands.h"
#include "core/workload/witness.h"

#include <stdio.h>
#include <string.h>

static int compile_input(struct workload_input *input, const struct format *format, const struct options *options,
                         struct error *error) {
  struct trace_reader *reader;
  struct witness witness;
  struct progress progress;
  if (open_input(&reader, options->in, format, options, error) != 0)
    return -1;
  int result = temporary_file_open(&input->compiled, error);
  if (result == 0) {
    struct compile_outputs outputs = {.workload = input->compiled.path};
    struct history_options history = history_options_of(options, &progress, "compile", reader);
    result = compile_trace(reader, &outputs, &history, &witness, error);
    progress_end(&progress);
  }
  trace_reader_close(reader);
  if (result == 0 && !witness_ok(&witness))
    diagnostics_warning(CONVERT, "%s: not a legal history: see 'heaptape check'", options->in);
  return result;
}

int workload_input_open(struct workload_input *input, const struct options *options, struct error *error) {
  *input = (struct workload_input){.compiled.fd = -1};
  const struct format *format = input_format(options->in, options->from, error);
  if (!format)
    return -1;
  if (strcmp(format->name, "work") == 0)
    return workload_open(&input->workload, input_path(options->in), error);
  if (compile_input(input, format, options, error) != 0)
    return -1;
  int result = workload_open(&input->workload, input->compiled.path, error);
  input->workload.path = options->in; /* the name in errors */
  return result;
}

void workload_input_close(struct workload_input *input) {
  workload_close(&input->workload);
  temporary_file_close(&input->compiled);
}

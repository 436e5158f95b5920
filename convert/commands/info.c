/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"

#include "convert/inspect/info.h"

#include <stdio.h>
#include <string.h>

static int print_info(json_t *info, const struct options *options, const struct error *error) {
  if (!info)
    return failed(error);
  if (options->json)
    return print_json(info);
  info_print(info, stdout);
  json_decref(info);
  return finish_output(EXIT_DONE);
}

static int run(const struct options *options) {
  struct error error = {""};
  struct trace_reader *reader = NULL;
  struct workload workload;
  struct progress progress;
  const struct format *format = input_format(options->in, options->from, &error);
  if (!format)
    return failed(&error);
  if (strcmp(format->name, "work") == 0) {
    if (workload_open(&workload, input_path(options->in), &error) != 0)
      return failed(&error);
    json_t *info = info_of_workload(&workload, &error);
    workload_close(&workload);
    return print_info(info, options, &error);
  }
  if (open_input(&reader, options->in, format, options, &error) != 0)
    return failed(&error);
  struct history_options history = history_options_of(options, &progress, "info", reader);
  json_t *info = info_of_trace(reader, &history, &error);
  progress_end(&progress);
  trace_reader_close(reader);
  return print_info(info, options, &error);
}

const struct command command_info = {
    .name = "info",
    .help =
        "usage: heaptape info F [--json]\n"
        "\n"
        "Counts per call, threads, bytes, dropped events, peak live bytes and the recorded memory of a trace (.tape), a workload\n"
        "(.work) or an Android memory_replay trace.\n",
    .run = run};

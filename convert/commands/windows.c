/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"

#include "convert/distil/window_features.h"
#include "convert/commands/workload_input.h"

static int write_to(const struct workload *workload, const struct options *options, struct error *error) {
  struct output_file file;
  struct output_stream stream;
  if (output_stream_begin(&stream, &file, options->out ? options->out : "-", error) != 0)
    return -1;
  int result = window_features_write(workload, options->ops, stream, error);
  return output_stream_end(&stream, &file, result, error);
}

static int run(const struct options *options) {
  struct error error = {""};
  struct workload_input input;
  if (options->ops == 0)
    return usage_error("windows needs --ops N");
  int result = workload_input_open(&input, options, &error);
  if (result == 0)
    result = write_to(&input.workload, options, &error);
  workload_input_close(&input);
  return result == 0 ? EXIT_DONE : failed(&error);
}

const struct command command_windows = {
    .name = "windows",
    .help =
        "usage: heaptape-convert windows F --ops N [-o OUT]\n"
        "\n"
        "Describes each window of N ops of a trace or workload: a line of JSON that names the columns, then a row of 64-bit\n"
        "counts for each window (convert/distil/README.md).\n",
    .run = run};

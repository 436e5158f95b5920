/* SPDX-License-Identifier: MIT */
/* info and profile: figures of one recording. */
#include "convert/commands/commands.h"

#include "convert/commands/inputs.h"
#include "convert/inspect/inspect.h"

#include <stddef.h>
#include <stdio.h>

struct settings {
  struct input_settings input;
  bool json;
};

static const struct cli_option info_options[] = {
    {.name = "json", .take = cli_flag, .field = offsetof(struct settings, json), .help = "all figures, as JSON"},
    {.name = "", .rows = input_options, .field = offsetof(struct settings, input)},
    {.name = NULL},
};

static json_t *trace_figures(struct trace_reader *reader, const char *label,
                             json_t *(*of_trace)(struct trace_reader *, const struct history_options *, struct error *),
                             struct error *error) {
  struct progress progress;
  struct history_options history = history_with_progress(&progress, label, reader);
  json_t *figures = of_trace(reader, &history, error);
  progress_end(&progress);
  return figures;
}

static int run_info(struct cli_words words) {
  struct settings settings = {.json = false};
  struct error error = {""};
  struct input input;
  int status = cli_parse(&convert_program, &command_info, &settings, &words);
  if (status != CLI_RUN)
    return status;
  if (input_open(&input, words.at[0], &settings.input, &error) != 0)
    return failed(&error);
  json_t *info = input.reader ? trace_figures(input.reader, "info", info_of_trace, &error)
                              : info_of_workload(&input.workload, &error);
  input_close(&input);
  if (!info)
    return failed(&error);
  if (settings.json)
    return print_json(info);
  info_print(info, stdout);
  json_decref(info);
  return finish_output(EXIT_DONE);
}

const struct cli_command command_info = {
    .called = "heaptape info",
    .summary = "show what a trace or workload holds",
    .synopsis = "[OPTION...] F",
    .details = "Counts per call, threads, bytes, dropped events, peak live bytes and the recorded memory of a trace, a "
               "workload or a foreign recording.\n\n" ABOUT_FILES,
    .options = info_options,
    .least = 1,
    .most = 1,
    .run = run_info};

static int run_profile(struct cli_words words) {
  struct input_settings settings = {.from = NULL};
  struct error error = {""};
  struct trace_reader *reader;
  int status = cli_parse(&convert_program, &command_profile, &settings, &words);
  if (status != CLI_RUN)
    return status;
  if (input_open_trace(&reader, words.at[0], &settings, &error) != 0)
    return failed(&error);
  json_t *profile = trace_figures(reader, "profile", profile_of_trace, &error);
  trace_reader_close(reader);
  return profile ? print_json(profile) : failed(&error);
}

const struct cli_command command_profile = {.called = "heaptape-convert profile",
                                            .summary = "the figures of 'heaptape profile'",
                                            .synopsis = "[OPTION...] F",
                                            .details = "The figures that 'heaptape profile' shows, as JSON.",
                                            .options = input_options,
                                            .least = 1,
                                            .most = 1,
                                            .run = run_profile};

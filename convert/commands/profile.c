/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"

#include "convert/inspect/profile.h"

static int run(const struct options *options) {
  struct error error = {""};
  struct trace_reader *reader = NULL;
  struct progress progress;
  const struct format *format = input_format(options->in, options->from, &error);
  if (!format || open_input(&reader, options->in, format, options, &error) != 0)
    return failed(&error);
  struct history_options history = history_options_of(options, &progress, "profile", reader);
  json_t *profile = profile_of_trace(reader, &history, &error);
  progress_end(&progress);
  trace_reader_close(reader);
  return profile ? print_json(profile) : failed(&error);
}

const struct command command_profile = {.name = "profile",
                                        .help = "usage: heaptape-convert profile F\n"
                                                "\n"
                                                "The figures that 'heaptape profile' shows, as JSON.\n",
                                        .run = run};

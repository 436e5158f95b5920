/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"
#include "convert/profile/profile.h"

static int run_profile(void *parsed, struct cli_words words) {
  const struct input_settings *settings = parsed;
  struct error error = {0};
  struct trace_reader *reader;
  struct progress progress;
  if (input_open_trace(&reader, words.at[0], settings, &error) != 0)
    return failed(&error);
  struct history_options history = history_with_progress(&progress, "profile", reader);
  json_t *profile = profile_of_trace(reader, &history, &error);
  progress_end(&progress);
  trace_reader_close(reader);
  return profile ? print_json(profile) : failed(&error);
}

static const struct cli_command command_profile = {.called = "heaptape-convert profile",
                                                   .summary = "the figures of 'heaptape profile'",
                                                   .synopsis = "[OPTION...] F",
                                                   .details = "The figures that 'heaptape profile' shows, as JSON.",
                                                   .options = input_options,
                                                   .least = 1,
                                                   .most = 1,
                                                   .settings_bytes = sizeof(struct input_settings),
                                                   .turn = 3,
                                                   .run = run_profile};
REGISTER_COMMAND(command_profile);

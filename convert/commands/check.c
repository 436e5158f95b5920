/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"

#include "convert/commands/inputs.h"
#include "core/workload/witness.h"
#include "core/workload/workload_read.h"

#include <stddef.h>
#include <stdio.h>

struct settings {
  struct input_settings input;
  bool json, ranges;
  double horizon_ns;
};

static const struct cli_option options[] = {
    {.name = "json", .take = cli_flag, .field = offsetof(struct settings, json), .help = "the result as JSON"},
    {.name = "ranges",
     .take = cli_flag,
     .field = offsetof(struct settings, ranges),
     .help =
         "also prove that no two live objects share a byte (where the order is by ownership tags, such overlaps are "
         "only counted: tags order the steps at one address, not at neighbouring ones)"},
    {.name = "horizon",
     .value = "NS",
     .take = cli_decimal,
     .field = offsetof(struct settings, horizon_ns),
     .help = "how long, in ns of the recording, a step that is not legal yet waits for the step that makes it legal",
     .fallback = "10 ms, or 0 where the order is known to be right"},
    {.name = "", .rows = input_options, .field = offsetof(struct settings, input)},
    {.name = NULL},
};

static int check_workload(const struct workload *workload, bool json, struct error *error) {
  struct workload_proof proof;
  if (workload_check(workload, &proof, error) != 0)
    return failed(error);
  if (json)
    return print_json(workload_proof_json(&proof));
  workload_proof_print(&proof, stdout);
  return finish_output(EXIT_DONE);
}

static int check_trace(struct trace_reader *reader, const struct settings *settings, struct error *error) {
  struct witness witness;
  struct progress progress;
  struct history_options history = history_with_progress(&progress, "check", reader);
  history.horizon_ns = settings->horizon_ns;
  history.check_ranges = settings->ranges;
  int result = history_run(reader, &history, NULL, &witness, error);
  progress_end(&progress);
  if (result != 0)
    return failed(error);
  if (!settings->json)
    witness_print(&witness, stdout);
  int status = settings->json ? print_json(witness_json(&witness)) : finish_output(EXIT_DONE);
  return status != EXIT_DONE || witness_ok(&witness) ? status : EXIT_FAILED;
}

static int run(struct cli_words words) {
  struct settings settings = {.horizon_ns = -1};
  struct error error = {""};
  struct input input;
  int status = cli_parse(&convert_program, &command_check, &settings, &words);
  if (status != CLI_RUN)
    return status;
  if (input_open(&input, words.at[0], &settings.input, &error) != 0)
    return failed(&error);
  status = input.reader ? check_trace(input.reader, &settings, &error)
                        : check_workload(&input.workload, settings.json, &error);
  input_close(&input);
  return status;
}

const struct cli_command command_check = {
    .called = "heaptape check",
    .summary = "prove that a trace or workload is a legal history",
    .synopsis = "[OPTION...] F",
    .details =
        "Proves that the history is legal: every release is of a live object, and no address is handed out while an "
        "object lives there. Exit 1 if not. Frees of objects never seen make a complete trace illegal. They are "
        "accepted where the trace states the reason: it is truncated, has dropped events, or lacks its start (an "
        "import, a forked child).\n\n" ABOUT_FILES,
    .options = options,
    .least = 1,
    .most = 1,
    .run = run};

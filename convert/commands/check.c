/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"

#include "core/workload/witness.h"
#include "core/workload/workload_check.h"

#include <stdio.h>
#include <string.h>

static int print_witness(const struct witness *witness, bool json) {
  if (json)
    return print_json(witness_json(witness));
  witness_print(witness, stdout);
  return finish_output(EXIT_DONE);
}

static int check_workload_file(const struct options *options, struct error *error) {
  struct workload workload;
  struct workload_proof proof;
  if (workload_open(&workload, input_path(options->in), error) != 0)
    return failed(error);
  int result = workload_check(&workload, &proof, error);
  workload_close(&workload);
  if (result != 0)
    return failed(error);
  if (options->json)
    return print_json(workload_proof_json(&proof));
  workload_proof_print(&proof, stdout);
  return finish_output(EXIT_DONE);
}

static int run(const struct options *options) {
  struct error error = {""};
  struct trace_reader *reader = NULL;
  struct witness witness;
  struct progress progress;
  const struct format *format = input_format(options->in, options->from, &error);
  if (!format)
    return failed(&error);
  if (strcmp(format->name, "work") == 0)
    return check_workload_file(options, &error);
  if (open_input(&reader, options->in, format, options, &error) != 0)
    return failed(&error);
  struct history_options history = history_options_of(options, &progress, "check", reader);
  int result = history_run(reader, &history, NULL, &witness, &error);
  progress_end(&progress);
  trace_reader_close(reader);
  if (result != 0)
    return failed(&error);
  int status = print_witness(&witness, options->json);
  return status != EXIT_DONE || witness_ok(&witness) ? status : EXIT_FAILED;
}

const struct command command_check = {
    .name = "check",
    .help =
        "usage: heaptape check F [--json] [--ranges] [--horizon NS]\n"
        "\n"
        "Proves that the history is legal: every release is of a live object, and no address is handed out while an object lives\n"
        "there. Exit 1 if not. Frees of objects never seen make a complete trace illegal. They are accepted where the trace states\n"
        "the reason: it is truncated, has dropped events, or lacks its start (an import, a forked child).\n"
        "\n"
        "  --ranges       also prove that no two live objects share a byte (where the order is by ownership tags, such overlaps are\n"
        "                 only counted: tags order the steps at one address, not at neighbouring ones)\n"
        "  --horizon NS   how long, in ns of the recording, a step that is not legal yet waits for the step that makes it legal\n"
        "                 (10 ms, or 0 where the order is known to be right)\n",
    .run = run};

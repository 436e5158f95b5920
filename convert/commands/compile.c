/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"

#include "core/workload/witness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* IN.tape becomes IN.work, other names get .work appended. The caller frees it. */
static char *default_workload_path(const char *in) {
  size_t length = strlen(in);
  char *path = malloc(length + 6);
  if (!path)
    return NULL;
  strcpy(path, in);
  if (length > 5 && strcmp(in + length - 5, ".tape") == 0)
    path[length - 5] = '\0';
  return strcat(path, ".work");
}

static int run(const struct options *options) {
  struct error error = {""};
  struct trace_reader *reader = NULL;
  struct witness witness;
  if (!options->out && strcmp(options->in, "-") == 0)
    return usage_error("compile - needs -o OUT.work");
  if (options->out && strcmp(options->out, "-") == 0)
    return usage_error("a work file can't be written to a stream");
  if (options->groups.count && options->accesses)
    return usage_error("compile --accesses: a rewritten history (--group) has no data accesses");
  if (options->positions.count && !options->groups.count)
    return usage_error("compile --position needs --group");
  const struct format *format = input_format(options->in, options->from, &error);
  if (!format || open_input(&reader, options->in, format, options, &error) != 0)
    return failed(&error);
  char *out = options->out ? strdup(options->out) : default_workload_path(options->in);
  int result = out ? compile_to(reader, out, options, &witness, &error) : -1;
  trace_reader_close(reader);
  int status = EXIT_DONE;
  if (result != 0) {
    status = failed(&error);
  } else {
    if (!witness_ok(&witness))
      diagnostics_warning(CONVERT, "%s: not a legal history: see 'heaptape check'", options->in);
    if (options->json)
      status = print_json(json_pack("{ss so}", "out", out, "witness", witness_json(&witness)));
    else if (!diagnostics_quiet())
      fprintf(stderr, "%s: %" PRIu64 " ops of %" PRIu32 " threads, peak %" PRIu64 " live bytes\n", out, witness.ops,
              witness.threads, witness.peak_live_bytes);
  }
  free(out);
  return status;
}

const struct command command_compile = {
    .name = "compile",
    .help =
        "usage: heaptape compile IN [-o OUT.work] [--accesses OUT.accesses] [--origins OUT.origins] [--group "
        "EXPR=ACTION]...\n"
        "                        [--position N]... [--json] [--horizon NS]\n"
        "\n"
        "Orders the events, proves the history legal, and writes the program that the replay engine runs. `heaptape replay` does\n"
        "this automatically for a trace.\n"
        "--accesses writes the trace's data accesses for the replay pass `misses` (record --accesses).\n"
        "--origins writes which call stack acquired each object, for the replay pass `blame`.\n"
        "--group treats a group of objects differently, as 'heaptape whatif' describes: ACTION is remove, segregate,\n"
        "pool=BYTES, early or late. Repeatable, for groups that have no objects in common.\n"
        "--position, with --group: the workload's info JSON gives the position in it of that position of the trace. Repeatable,\n"
        "rising.\n"
        "--horizon: as for 'heaptape check'.\n",
    .run = run};

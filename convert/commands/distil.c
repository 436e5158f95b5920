/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"

#include "convert/distil/distil.h"
#include "convert/commands/workload_input.h"
#include "core/files/output_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAN_BYTES = 16 << 20 };

static int read_plan(const char *path, struct distil_plan *plan, struct error *error) {
  FILE *file = fopen(path, "re");
  if (!file)
    return error_errno(error, path, "can't open");
  char *text = malloc(PLAN_BYTES + 1);
  size_t bytes = text ? fread(text, 1, PLAN_BYTES + 1, file) : 0;
  int result;
  if (!text)
    result = error_set(error, path, "out of memory");
  else if (ferror(file))
    result = error_errno(error, path, "can't read");
  else if (bytes > PLAN_BYTES)
    result = error_set(error, path, "is not a plan: it has more than 16 MiB");
  else
    result = distil_plan_parse(plan, text, bytes, path, error);
  free(text);
  fclose(file);
  return result;
}

static int distil_to(const struct workload *workload, const struct distil_plan *plan, const char *out,
                     struct distil_counts *counts, struct error *error) {
  struct output_file file;
  if (!out)
    return distil_write(workload, plan, NULL, counts, error);
  if (output_file_begin(&file, out, error) != 0)
    return -1;
  return output_file_end(&file, distil_write(workload, plan, file.temporary, counts, error), error);
}

static int distil(const struct options *options, struct distil_counts *counts, struct error *error) {
  struct workload_input input;
  struct distil_plan plan = {.manifest = NULL};
  int result = read_plan(options->plan, &plan, error);
  plan.accesses = options->accesses;
  if (result == 0) {
    result = workload_input_open(&input, options, error);
    if (result == 0)
      result = distil_to(&input.workload, &plan, options->out, counts, error);
    workload_input_close(&input);
  }
  distil_plan_free(&plan);
  return result;
}

static int run(const struct options *options) {
  struct error error = {""};
  struct distil_counts counts;
  if (!options->plan)
    return usage_error("distil needs --plan PLAN.json");
  if (options->out ? strcmp(options->out, "-") == 0 : !options->json)
    return usage_error("distil needs -o OUT.tape, or --json alone");
  if (distil(options, &counts, &error) != 0)
    return failed(&error);
  if (options->json)
    return print_json(json_pack("{s:s? s:I s:I s:I s:I s:I}", "out", options->out, "ops", (json_int_t)counts.ops,
                                "whole_ops", (json_int_t)counts.whole_ops, "counted_ops",
                                (json_int_t)counts.counted_ops, "warm_up_ops", (json_int_t)counts.warm_up_ops,
                                "objects", (json_int_t)counts.objects));
  if (!diagnostics_quiet())
    fprintf(stderr, "%s: %" PRIu64 " ops of %" PRIu64 ": %" PRIu64 " count, %" PRIu64 " warm up\n", options->out,
            counts.ops, counts.whole_ops, counts.counted_ops, counts.warm_up_ops);
  return EXIT_DONE;
}

const struct command command_distil = {
    .name = "distil",
    .help =
        "usage: heaptape-convert distil F --plan PLAN.json [--accesses W.accesses] -o OUT.tape [--json]\n"
        "       heaptape-convert distil F --plan PLAN.json [--accesses W.accesses] --json\n"
        "\n"
        "Makes the distillate that a plan describes (convert/distil/plan.h) of a trace or workload: windows of its ops and\n"
        "objects that make up its memory, with the manifest by which figures of the whole are estimated. 'heaptape distil'\n"
        "makes plans. Without -o: only reports how many ops it would have. --accesses: for a workload, the file that 'compile\n"
        "--accesses' wrote beside it; the windows then include their data accesses.\n",
    .run = run};

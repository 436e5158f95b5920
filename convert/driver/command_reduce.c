#include "convert/driver/command.h"

#include "convert/driver/kept_file.h"
#include "convert/rewrite/workload_trace.h"
#include "core/base/output_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int reduce(const struct options *options, struct workload_trace_counts *counts, struct error *error) {
  struct workload workload;
  struct workload_trace_wanted wanted = {.end = options->has_end ? options->end : UINT64_MAX,
                                         .joined = options->joined.at,
                                         .joined_count = options->joined.count};
  struct output_file file;
  if (workload_open(&workload, input_path(options->in), error) != 0)
    return -1;
  struct kept_file kept = {NULL, 0};
  int result = options->keep ? kept_file_map(&kept, options->keep, error) : 0;
  wanted.objects = kept.objects;
  wanted.object_count = kept.count;
  if (result == 0)
    result = output_file_begin(&file, options->out, error);
  if (result == 0)
    result = output_file_end(&file, workload_trace_write(&workload, &wanted, file.temporary, counts, error), error);
  kept_file_unmap(&kept);
  workload_close(&workload);
  return result;
}

static int run(const struct options *options) {
  struct error error = {""};
  struct workload_trace_counts counts;
  if (!options->out || strcmp(options->out, "-") == 0)
    return usage_error("reduce needs -o OUT.tape");
  if (reduce(options, &counts, &error) != 0)
    return failed(&error);
  if (options->json)
    return print_json(json_pack("{ss sI sI}", "out", options->out, "objects", (json_int_t)counts.objects, "events",
                                (json_int_t)counts.events));
  return EXIT_DONE;
}

const struct command command_reduce = {
    .name = "reduce",
    .help =
        "usage: heaptape-convert reduce W.work -o OUT.tape [--keep FILE] [--end POSITION] [--join THREAD]... [--json]\n"
        "\n"
        "Makes a trace of a workload, or of some of it: what 'heaptape minimise' tries its candidates with.\n"
        "--keep: a file of one byte for each object, in the order of their births; 0 leaves the object out, with all "
        "its\n"
        "calls. A call that is given NULL and acquires nothing counts as an object.\n"
        "--end: leaves out the op at that position of the total order and all after it.\n"
        "--join: that thread's calls are made by thread 0. Repeatable.\n",
    .run = run};

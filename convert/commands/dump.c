/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"

#include "convert/history/merge.h"
#include "convert/inspect/dump.h"
#include "convert/inspect/dump_accesses.h"
#include "convert/inspect/dump_stacks.h"
#include "convert/inspect/dump_workload.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int dump_workload_file(const struct options *options, const struct dump_options *wanted) {
  struct error error = {""};
  struct workload workload;
  if (workload_open(&workload, input_path(options->in), &error) != 0)
    return failed(&error);
  int result = -1;
  if (options->has_thread && options->thread >= workload.header.threads)
    error_set(&error, options->in, "has only %" PRIu32 " threads", workload.header.threads);
  else
    result = dump_workload(&workload, wanted, (struct output_stream){stdout, "standard output"}, &error);
  workload_close(&workload);
  return result == 0 ? EXIT_DONE : failed(&error);
}

static int run(const struct options *options) {
  struct error error = {""};
  struct trace_reader *reader = NULL;
  int dump_format = dump_format_by_name(options->format ? options->format : "text");
  if (dump_format < 0)
    return usage_error("dump writes the formats text, csv and jsonl, not '%s'", options->format);
  struct dump_options wanted = {.format = (enum dump_format)dump_format,
                                .stacks = options->stacks,
                                .thread = options->has_thread ? (uint32_t)options->thread : MERGE_ALL_THREADS};
  const struct format *format = input_format(options->in, options->from, &error);
  if (format && strcmp(format->name, "work") == 0)
    return dump_workload_file(options, &wanted);
  if (!format || open_input(&reader, options->in, format, options, &error) != 0)
    return failed(&error);
  int result = -1;
  if (options->nodes)
    result = dump_stack_nodes(reader, options->stacks == DUMP_STACKS_FETCHED, stdout, "standard output", &error);
  else if (options->list_accesses)
    result = dump_accesses(reader, (enum dump_format)dump_format, stdout, "standard output", &error);
  else if (options->has_thread && options->thread >= trace_reader_summary(reader)->threads)
    error_set(&error, options->in, "has only %" PRIu32 " threads", trace_reader_summary(reader)->threads);
  else
    result = dump_trace(reader, &wanted, (struct output_stream){stdout, "standard output"}, &error);
  trace_reader_close(reader);
  return result == 0 ? EXIT_DONE : failed(&error);
}

const struct command command_dump = {
    .name = "dump",
    .help =
        "usage: heaptape dump F [--format text|csv|jsonl] [--thread N] [--stacks [--debuginfod]]\n"
        "       heaptape dump F --stacks --nodes [--debuginfod]\n"
        "       heaptape dump F --accesses [--format text|csv|jsonl]\n"
        "\n"
        "One event per line, in merged order. --stacks: the call stacks too, each where it first occurs, as function, file and\n"
        "line, or as module and offset where the recorded files are missing here or have changed. --debuginfod: missing debug\n"
        "information may be fetched from DEBUGINFOD_URLS.\n"
        "\n"
        "--nodes: instead of events, the tree that the stacks form, one JSON object per node, parents first:\n"
        "{\"node\": 7, \"parent\": 3, \"frames\": [...]}; a frame has function, file, line, module and offset as far as they are known.\n"
        "\n"
        "--accesses: instead of events, the data accesses (record --accesses) and the calls between them, one per "
        "line.\n",
    .run = run};

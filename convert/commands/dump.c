/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"

#include "convert/commands/inputs.h"
#include "convert/history/merge.h"
#include "convert/inspect/dump.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

struct settings {
  struct input_settings input;
  int format; /* enum dump_format */
  uint64_t thread;
  bool stacks, debuginfod, nodes, accesses;
};

static const uint64_t ALL_THREADS = UINT64_MAX;

static const struct cli_option options[] = {
    {.name = "format",
     .value = "text|csv|jsonl",
     .field = offsetof(struct settings, format),
     .help = "the form of a line",
     .fallback = "text"},
    {.name = "thread",
     .value = "N",
     .take = cli_count,
     .field = offsetof(struct settings, thread),
     .help = "only the events of this thread"},
    {.name = "stacks",
     .take = cli_flag,
     .field = offsetof(struct settings, stacks),
     .help =
         "the call stacks too, each where it first occurs, as function, file and line, or as module and offset where "
         "the recorded files are missing here or have changed"},
    {.name = "debuginfod",
     .take = cli_flag,
     .field = offsetof(struct settings, debuginfod),
     .help = "with stacks; missing debug information may be fetched from DEBUGINFOD_URLS"},
    {.name = "nodes",
     .take = cli_flag,
     .field = offsetof(struct settings, nodes),
     .help = "instead of events, the tree that the stacks form, one JSON object per node, parents first: "
             "{\"node\": 7, \"parent\": 3, \"frames\": [...]}; a frame has function, file, line, module and offset as "
             "far as they are known"},
    {.name = "accesses",
     .take = cli_flag,
     .field = offsetof(struct settings, accesses),
     .help = "instead of events, the data accesses (record --accesses) and the calls between them, one per line"},
    {.name = "", .rows = input_options, .field = offsetof(struct settings, input)},
    {.name = NULL},
};

static int dump(struct input *input, const char *in, const struct settings *settings, struct error *error) {
  const struct output_stream out = {stdout, "standard output"};
  const struct dump_options wanted = {.format = (enum dump_format)settings->format,
                                      .stacks = settings->debuginfod ? DUMP_STACKS_FETCHED
                                                : settings->stacks   ? DUMP_STACKS
                                                                     : DUMP_NO_STACKS,
                                      .thread = settings->thread == ALL_THREADS ? MERGE_ALL_THREADS
                                                                                : (uint32_t)settings->thread};
  if (input->reader && settings->nodes)
    return dump_stack_nodes(input->reader, settings->debuginfod, stdout, out.name, error);
  if (input->reader && settings->accesses)
    return dump_accesses(input->reader, wanted.format, stdout, out.name, error);
  uint32_t threads = input->reader ? trace_reader_summary(input->reader)->threads : input->workload.header.threads;
  if (settings->thread != ALL_THREADS && settings->thread >= threads)
    return error_set(error, in, "has only %" PRIu32 " threads", threads);
  return input->reader ? dump_trace(input->reader, &wanted, out, error)
                       : dump_workload(&input->workload, &wanted, out, error);
}

static int run(struct cli_words words) {
  struct settings settings = {.thread = ALL_THREADS};
  struct error error = {""};
  struct input input;
  int status = cli_parse(&convert_program, &command_dump, &settings, &words);
  if (status != CLI_RUN)
    return status;
  if (input_open(&input, words.at[0], &settings.input, &error) != 0)
    return failed(&error);
  int result = dump(&input, words.at[0], &settings, &error);
  input_close(&input);
  return result == 0 ? EXIT_DONE : failed(&error);
}

const struct cli_command command_dump = {.called = "heaptape dump",
                                         .summary = "print events, one per line",
                                         .synopsis = "[OPTION...] F",
                                         .details = "One event per line, in merged order.\n\n" ABOUT_FILES,
                                         .options = options,
                                         .least = 1,
                                         .most = 1,
                                         .run = run};

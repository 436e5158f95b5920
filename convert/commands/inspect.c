/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"
#include "convert/history/merge.h"
#include "convert/inspect/dump.h"
#include "convert/inspect/info.h"
#include "core/workload/witness.h"
#include "core/workload/workload_check.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

struct check_settings {
  struct input_settings input;
  bool json, ranges;
  double horizon_ns;
};

static const struct cli_option check_options[] = {
    {"json", 0, NULL, cli_flag, offsetof(struct check_settings, json), .help = "the result as JSON"},
    {"ranges", 0, NULL, cli_flag, offsetof(struct check_settings, ranges),
     .help =
         "also prove that no two live objects share a byte (where the order is by ownership tags, such overlaps are "
         "only counted: tags order the steps at one address, not at neighbouring ones)"},
    {"horizon", 0, "NS", cli_decimal, offsetof(struct check_settings, horizon_ns),
     .help = "how long, in ns of the recording, a step that is not legal yet waits for the step that makes it legal",
     .fallback = "10 ms, or 0 where the order is known to be right"},
    {.name = "", .rows = input_options, .field = offsetof(struct check_settings, input)},
    {.name = NULL},
};

static int check_workload(const struct workload *workload, bool json, struct error *error) {
  struct workload_proof proof;
  if (workload_check(workload, &proof, error) != 0)
    return failed(error);
  if (json)
    return print_json(workload_proof_json(&proof));
  workload_proof_print(&proof, stdout);
  return cli_finish_output(CONVERT);
}

static int check_trace(struct trace_reader *reader, const char *in, const struct check_settings *settings,
                       struct error *error) {
  struct witness witness;
  struct progress progress;
  struct history_options history = history_with_progress(&progress, "check", reader);
  history.horizon_ns = settings->horizon_ns;
  history.check_ranges = settings->ranges;
  int result = history_run(reader, &history, NULL, &witness, error);
  progress_end(&progress);
  if (result != 0)
    return failed(error);
  if (settings->ranges && !witness.ranges_checked)
    diagnostics_warning(CONVERT, "%s: its addresses are made up: --ranges has nothing to check", in);
  if (!settings->json)
    witness_print(&witness, stdout);
  int status = settings->json ? print_json(witness_json(&witness)) : cli_finish_output(CONVERT);
  return status != EXIT_DONE || witness_ok(&witness) ? status : EXIT_FAILED;
}

static int run_check(void *parsed, struct cli_words words) {
  const struct check_settings *settings = parsed;
  struct error error = {0};
  struct input input;
  if (input_open(&input, words.at[0], &settings->input, &error) != 0)
    return failed(&error);
  int status = input.reader ? check_trace(input.reader, words.at[0], settings, &error)
                            : check_workload(&input.workload, settings->json, &error);
  input_close(&input);
  return status;
}

static const struct cli_command command_check = {
    .called = "heaptape check",
    .summary = "prove that a trace or workload is a legal history",
    .synopsis = "[OPTION...] F",
    .details =
        "Proves that the history is legal: every release is of a live object, and no address is handed out while an "
        "object lives there. Exit 1 if not. Frees of objects never seen make a complete trace illegal. They are "
        "accepted where the trace states the reason: it is truncated, has dropped events, or lacks its start (an "
        "import, a forked child).\n\n" ABOUT_FILES,
    .options = check_options,
    .least = 1,
    .most = 1,
    .defaults = &(const struct check_settings){.horizon_ns = -1},
    .settings_bytes = sizeof(struct check_settings),
    .turn = 1,
    .run = run_check};
REGISTER_COMMAND(command_check);

struct info_settings {
  struct input_settings input;
  bool json;
  int table; /* 0: the main figures, 1: all */
};

static const struct cli_option info_options[] = {
    {"json", 0, NULL, cli_flag, offsetof(struct info_settings, json), .help = "all figures, as JSON"},
    {"table", 0, "main|all", NULL, offsetof(struct info_settings, table),
     .help = "the main figures in a dozen lines, or all", .fallback = "main"},
    {.name = "", .rows = input_options, .field = offsetof(struct info_settings, input)},
    {.name = NULL},
};

static json_t *info_of(struct trace_reader *reader, struct error *error) {
  struct progress progress;
  struct history_options history = history_with_progress(&progress, "info", reader);
  json_t *info = info_of_trace(reader, &history, error);
  progress_end(&progress);
  return info;
}

static int run_info(void *parsed, struct cli_words words) {
  const struct info_settings *settings = parsed;
  struct error error = {0};
  struct input input;
  if (input_open(&input, words.at[0], &settings->input, &error) != 0)
    return failed(&error);
  json_t *info = input.reader ? info_of(input.reader, &error) : info_of_workload(&input.workload, &error);
  input_close(&input);
  if (!info)
    return failed(&error);
  info_add_said(info, words.at[0]);
  if (settings->json)
    return print_json(info);
  if (json_is_true(json_object_get(info, "truncated")) && json_integer_value(json_object_get(info, "events")) == 0) {
    error_at(&error, words.at[0], (uint64_t)json_integer_value(json_object_get(info, "truncated_at")),
             "the file ends before its first call: nothing was recorded, or its end was lost");
    json_decref(info);
    return failed(&error);
  }
  info_print(info, settings->table != 0, stdout);
  json_decref(info);
  return cli_finish_output(CONVERT);
}

static const struct cli_command command_info = {
    .called = "heaptape info",
    .summary = "show what a trace or workload holds",
    .synopsis = "[OPTION...] F",
    .details = "Counts per call, threads, bytes, dropped events, peak live bytes and the recorded memory of a trace, a "
               "workload or a foreign recording.\n\n" ABOUT_FILES,
    .options = info_options,
    .least = 1,
    .most = 1,
    .settings_bytes = sizeof(struct info_settings),
    .turn = 2,
    .run = run_info};
REGISTER_COMMAND(command_info);

struct dump_settings {
  struct input_settings input;
  int format; /* enum dump_format */
  uint64_t thread;
  bool stacks, debuginfod, nodes;
  dump_instead *instead; /* NULL: the events */
};

static const uint64_t ALL_THREADS = UINT64_MAX;

CLI_PLACE(dump);
static const struct cli_option dump_option_rows[] = {
    {"format", 0, "text|csv|jsonl", NULL, offsetof(struct dump_settings, format), .help = "the form of a line",
     .fallback = "text"},
    {"thread", 0, "N", cli_count, offsetof(struct dump_settings, thread), .help = "only the events of this thread"},
    {"stacks", 0, NULL, cli_flag, offsetof(struct dump_settings, stacks),
     .help =
         "the call stacks too, each where it first occurs, as function, file and line, or as module and offset where "
         "the recorded files are missing here or have changed"},
    {"debuginfod", 0, NULL, cli_flag, offsetof(struct dump_settings, debuginfod),
     .help = "with stacks; missing debug information may be fetched from DEBUGINFOD_URLS"},
    {"nodes", 0, NULL, cli_flag, offsetof(struct dump_settings, nodes),
     .help = "instead of events, the tree that the stacks form, one JSON object per node, parents first: "
             "{\"node\": 7, \"parent\": 3, \"frames\": [...]}; a frame has function, file, line, module and offset as "
             "far as they are known"},
    {CLI_ADDED(dump), .field = offsetof(struct dump_settings, instead)},
    {.name = "", .rows = input_options, .field = offsetof(struct dump_settings, input)},
    {.name = NULL},
};

static int dump_input(struct input *input, const char *in, const struct dump_settings *settings, struct error *error) {
  const struct output_stream out = {stdout, "standard output"};
  const struct dump_options wanted = {.format = (enum dump_format)settings->format,
                                      .stacks = settings->debuginfod ? DUMP_STACKS_FETCHED
                                                : settings->stacks   ? DUMP_STACKS
                                                                     : DUMP_NO_STACKS,
                                      .thread = settings->thread == ALL_THREADS ? MERGE_ALL_THREADS
                                                                                : (uint32_t)settings->thread};
  if (input->reader && settings->nodes)
    return dump_stack_nodes(input->reader, settings->debuginfod, stdout, out.name, error);
  if (input->reader && settings->instead)
    return settings->instead(input->reader, wanted.format, out, error);
  uint32_t threads = input->reader ? trace_reader_summary(input->reader)->threads : input->workload.header.threads;
  if (settings->thread != ALL_THREADS && settings->thread >= threads)
    return error_set(error, in, "has only %" PRIu32 " threads", threads);
  return input->reader ? dump_trace(input->reader, &wanted, out, error)
                       : dump_workload(&input->workload, &wanted, out, error);
}

static int run_dump(void *parsed, struct cli_words words) {
  const struct dump_settings *settings = parsed;
  struct error error = {0};
  struct input input;
  if (input_open(&input, words.at[0], &settings->input, &error) != 0)
    return failed(&error);
  int result = dump_input(&input, words.at[0], settings, &error);
  input_close(&input);
  return result == 0 ? EXIT_DONE : failed(&error);
}

static const struct cli_command command_dump = {.called = "heaptape dump",
                                                .summary = "print events, one per line",
                                                .synopsis = "[OPTION...] F",
                                                .details = "One event per line, in merged order.\n\n" ABOUT_FILES,
                                                .options = dump_option_rows,
                                                .least = 1,
                                                .most = 1,
                                                .defaults = &(const struct dump_settings){.thread = UINT64_MAX},
                                                .settings_bytes = sizeof(struct dump_settings),
                                                .turn = 4,
                                                .run = run_dump};
REGISTER_COMMAND(command_dump);

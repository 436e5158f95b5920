/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "core/workload/witness.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings {
  struct input_settings input;
  const char *out;
  struct compile_added added;
  bool json;
  double horizon_ns;
};

CLI_PLACE(compile);
static const struct cli_option options[] = {
    {"output", 'o', "OUT.work", cli_text, offsetof(struct settings, out), .help = "where the workload goes",
     .fallback = "F, ending in .work instead of .tape"},
    {CLI_ADDED(compile), .field = offsetof(struct settings, added)},
    {"json", 0, NULL, cli_flag, offsetof(struct settings, json), .help = "the result as JSON"},
    {"horizon", 0, "NS", cli_decimal, offsetof(struct settings, horizon_ns), .help = "as for 'heaptape check'"},
    {.name = "", .rows = input_options, .field = offsetof(struct settings, input)},
    {.name = NULL},
};

static int end_files(struct output_file *workload, const struct compile_job *job, int result, struct error *error) {
  for (struct compile_file *file = job->added.files; file; file = file->next)
    if (file->output.path)
      result = output_file_end(&file->output, result, error);
  return workload->path ? output_file_end(workload, result, error) : result;
}

static int begin_files(struct output_file *workload, const struct compile_job *job, struct error *error) {
  *workload = (struct output_file){.path = NULL};
  int result = output_file_begin(workload, job->out, error);
  for (struct compile_file *file = job->added.files; result == 0 && file; file = file->next)
    result = output_file_begin(&file->output, file->path, error);
  return result == 0 ? 0 : end_files(workload, job, -1, error);
}

int compile_to(struct trace_reader *reader, const struct compile_job *job, struct witness *witness,
               struct error *error) {
  struct output_file workload;
  struct progress progress;
  if (begin_files(&workload, job, error) != 0)
    return -1;
  struct history_options history = history_with_progress(&progress, "compile", reader);
  history.horizon_ns = job->horizon_ns;
  struct compile_outputs outputs = {.workload = workload.opened, .added = job->added};
  int result = compile_trace(reader, &outputs, &history, witness, error);
  progress_end(&progress);
  result = end_files(&workload, job, result, error);
  for (struct compile_file *file = job->added.files; result == 0 && file; file = file->next)
    if (file->warn)
      file->warn(file, job->in, reader);
  return result;
}

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

static int print_result(const char *out, const struct witness *witness, bool json) {
  if (json)
    return print_json(json_pack("{ss so}", "out", out, "witness", witness_json(witness)));
  if (!diagnostics.quiet) {
    char ops[TEXT_NUMBER_BYTES], threads[TEXT_NUMBER_BYTES], live[TEXT_NUMBER_BYTES];
    fprintf(stderr, "%s: %s of %s, peak live %s\n", out, text_counted(ops, witness->ops, "op"),
            text_counted(threads, witness->threads, "thread"), text_size(live, (double)witness->peak_live_bytes));
  }
  return EXIT_DONE;
}

bool told_legal(const char *in, const struct witness *witness) {
  if (!witness_ok(witness))
    diagnostics_warning(CONVERT, "%s: not a legal history: heaptape check says why", in);
  return witness_ok(witness);
}

static int compile(const char *in, const struct settings *settings) {
  struct error error = {0};
  struct trace_reader *reader;
  struct witness witness;
  if (input_open_trace(&reader, in, &settings->input, &error) != 0)
    return failed(&error);
  char *out = settings->out ? strdup(settings->out) : default_workload_path(in);
  const struct compile_job job = {.in = in, .out = out, .horizon_ns = settings->horizon_ns, .added = settings->added};
  int result = out ? compile_to(reader, &job, &witness, &error) : -1;
  trace_reader_close(reader);
  bool warns = result == 0 && !settings->json; /* with --json the witness says it */
  if (warns)
    told_legal(in, &witness);
  if (warns && witness.ops == 0)
    diagnostics_warning(CONVERT, "%s: has no calls: there is nothing to replay", in);
  int status = result == 0 ? print_result(out, &witness, settings->json) : failed(&error);
  free(out);
  return status;
}

/* With the usage; NULL: nothing. */
static const char *wrong_with(const struct settings *settings, const char *in) {
  const struct rewriting *rewriting = settings->added.rewriting;
  if (!settings->out && strcmp(in, "-") == 0)
    return "compile - needs -o OUT.work";
  if (settings->out && strcmp(settings->out, "-") == 0)
    return "a work file can't be written to a stream";
  const char *wrong = rewriting ? rewriting->wrong(rewriting) : NULL;
  for (const struct compile_file *file = settings->added.files; !wrong && file; file = file->next)
    wrong = !file->path ? file->without_path : rewriting ? file->with_rewriting : NULL;
  return wrong;
}

static const struct cli_command command_compile;

static int run(void *parsed, struct cli_words words) {
  const struct settings *settings = parsed;
  const char *wrong = wrong_with(settings, words.at[0]);
  return wrong ? cli_wrong(CONVERT, &command_compile, "%s", wrong) : compile(words.at[0], settings);
}

static const struct cli_command command_compile = {
    .called = "heaptape compile",
    .summary = "make a workload from a trace",
    .synopsis = "[OPTION...] F",
    .details =
        "Orders the events, proves the history legal, and writes the program that the replay engine runs. 'heaptape "
        "replay' does this automatically for a trace.\n\n" ABOUT_FILES,
    .options = options,
    .least = 1,
    .most = 1,
    .defaults = &(const struct settings){.horizon_ns = -1},
    .settings_bytes = sizeof(struct settings),
    .turn = 0,
    .run = run};
REGISTER_COMMAND(command_compile);

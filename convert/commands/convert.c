/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"

#include "convert/copy/trace_copy.h"
#include "convert/history/merge.h"
#include "convert/inspect/dump.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "core/workload/witness.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct settings {
  struct input_settings input;
  const struct format *to;
  struct trace_rewriting *rewriting; /* of the options added here; NULL: a copy */
  bool archive, list;
};

CLI_PLACE(convert);
static const struct cli_option options[] = {
    {"to", 0, "FMT", take_format, offsetof(struct settings, to),
     .help = "the format of the output, where its name does not tell"},
    {CLI_ADDED(convert), .field = offsetof(struct settings, rewriting)},
    {"archive", 0, NULL, cli_flag, offsetof(struct settings, archive),
     .help = "the smallest form; everything that reads traces reads it"},
    {"list", 0, NULL, cli_flag, offsetof(struct settings, list), .help = "the formats"},
    {.name = "", .rows = input_options, .field = offsetof(struct settings, input)},
    {.name = NULL},
};

/* One conversion. */
struct conversion {
  const struct settings *settings;
  char **in;
  uint32_t in_count;
  const char *out;
  const struct format *to;
};

static int list_formats(void) {
  size_t width = text_width(STDOUT_FILENO);
  FOR_EACH_FORMAT(entry) {
    const struct format *format = *entry;
    bool reads = format->import || !strcmp(format->name, "tape"), writes = format->suffix != NULL;
    int column = printf("%-14s %-11s ", format->name, reads && writes ? "read, write" : reads ? "read" : "write");
    text_print(stdout, format->description, width, (size_t)column, (size_t)column);
  }
  return cli_finish_output(CONVERT);
}

static int write_format(struct trace_reader *reader, const struct format *to, struct output_stream out,
                        struct error *error) {
  struct progress progress;
  struct text_line report;
  if (!to->export)
    return dump_trace(reader, &(struct dump_options){dump_format_by_name(to->name), DUMP_NO_STACKS, MERGE_ALL_THREADS},
                      out, error);
  struct history_options history = history_with_progress(&progress, "convert", reader);
  struct export_job job = {to->export, reader, out, &history};
  int result = to->export->trace(&job, &report, error);
  progress_end(&progress);
  if (result == 0 && report.used)
    diagnostics_warning(CONVERT, "%s: %s", out.name, report.text);
  return result;
}

static int write_to(struct trace_reader *reader, const struct conversion *conversion, struct error *error) {
  struct output_file file;
  struct output_stream stream;
  if (output_stream_begin(&stream, &file, conversion->out, error) != 0)
    return -1;
  int result = write_format(reader, conversion->to, stream, error);
  return output_stream_end(&stream, &file, result, error);
}

static void warn_of_lost_accesses(struct trace_reader **readers, const struct conversion *conversion, const char *why) {
  bool lost = false;
  for (uint32_t i = 0; i < conversion->in_count; i++)
    lost |= trace_reader_summary(readers[i])->accesses.recorded;
  if (lost)
    diagnostics_warning(CONVERT, "%s: data accesses are left out: %s", conversion->out, why);
}

static int make_trace(struct trace_reader **readers, const char *path, const struct conversion *conversion,
                      bool archive, struct error *error) {
  const struct trace_rewriting *rewriting = conversion->settings->rewriting;
  struct progress progress;
  struct history_options history = history_with_progress(&progress, "convert", readers[0]);
  const struct trace_job job = {readers, conversion->in_count, path, {.archive = archive, .history = &history}};
  int result = rewriting ? rewriting->run(rewriting, &job, error) : trace_copy(readers[0], path, &job.options, error);
  progress_end(&progress);
  if (result == 0 && rewriting && rewriting->without_accesses)
    warn_of_lost_accesses(readers, conversion, rewriting->without_accesses);
  return result;
}

static void close_inputs(struct trace_reader **readers, uint32_t count) {
  for (uint32_t i = 0; readers && i < count; i++)
    trace_reader_close(readers[i]);
  free(readers);
}

static struct trace_reader **open_inputs(const struct conversion *conversion, struct error *error) {
  struct trace_reader **readers = calloc(conversion->in_count, sizeof *readers);
  if (!readers)
    error_set(error, conversion->in[0], "out of memory");
  for (uint32_t i = 0; readers && i < conversion->in_count; i++)
    if (input_open_trace(&readers[i], conversion->in[i], &conversion->settings->input, error) != 0) {
      readers[i] = NULL;
      close_inputs(readers, conversion->in_count);
      return NULL;
    }
  return readers;
}

static int write_tape(struct trace_reader **readers, const struct conversion *conversion, struct error *error) {
  struct output_file file;
  if (output_file_begin(&file, conversion->out, error) != 0)
    return -1;
  int result = make_trace(readers, file.opened, conversion, conversion->settings->archive, error);
  return output_file_end(&file, result, error);
}

static int write_other(struct trace_reader *reader, const struct conversion *conversion, struct error *error) {
  struct witness witness;
  const struct compile_job job = {.in = conversion->in[0], .out = conversion->out, .horizon_ns = -1};
  return strcmp(conversion->to->name, "work") == 0 ? compile_to(reader, &job, &witness, error)
                                                   : write_to(reader, conversion, error);
}

/* The same, of the rewritten trace. */
static int write_other_rewritten(struct trace_reader **readers, const struct conversion *conversion,
                                 struct error *error) {
  struct trace_reader *reader = NULL;
  struct temporary_file temporary;
  if (temporary_file_open(&temporary, error) != 0)
    return -1;
  int result = make_trace(readers, temporary.path, conversion, false, error);
  if (result == 0)
    result = trace_reader_open(&reader, temporary.path, error);
  temporary_file_close(&temporary);
  if (result == 0)
    result = write_other(reader, conversion, error);
  trace_reader_close(reader);
  return result;
}

/* Says so where a history that was read is illegal, as 'check' calls it. Returns the exit status. */
static int judge(struct trace_reader **readers, uint32_t count, const struct conversion *conversion,
                 struct error *error) {
  int status = EXIT_DONE;
  for (uint32_t i = 0; i < count; i++) {
    struct witness witness;
    struct progress progress;
    struct history_options history = history_with_progress(&progress, "check", readers[i]);
    int result = history_run(readers[i], &history, NULL, &witness, error);
    progress_end(&progress);
    if (result != 0)
      return failed(error);
    if (!told_legal(conversion->in[i], &witness))
      status = EXIT_FAILED;
  }
  return status;
}

static int judge_imported(const struct conversion *conversion, struct error *error) {
  struct trace_reader *reader;
  if (trace_reader_open(&reader, conversion->out, error) != 0)
    return failed(error);
  int status = judge(&reader, 1, conversion, error);
  trace_reader_close(reader);
  return status;
}

/* Returns the exit status. */
static int import_to(const struct format *from, const struct conversion *conversion, struct error *error) {
  struct output_file file;
  if (output_file_begin(&file, conversion->out, error) != 0)
    return failed(error);
  int result = input_import(conversion->in[0], from, &conversion->settings->input, file.opened, error);
  bool can_be_read = file.partial; /* not a pipe, nor /dev/null */
  result = output_file_end(&file, result, error);
  return result == 0 && can_be_read ? judge_imported(conversion, error) : result == 0 ? EXIT_DONE : failed(error);
}

static int convert(const struct conversion *conversion) {
  struct error error = {0};
  const struct settings *settings = conversion->settings;
  bool to_tape = strcmp(conversion->to->name, "tape") == 0, rewritten = settings->rewriting || settings->archive;
  const struct format *from = input_format(conversion->in[0], &conversion->settings->input, &error);
  if (!from)
    return failed(&error);
  if (to_tape && from->import && !rewritten)
    return import_to(from, conversion, &error);
  struct trace_reader **readers = open_inputs(conversion, &error);
  if (!readers)
    return failed(&error);
  int result = to_tape     ? write_tape(readers, conversion, &error)
               : rewritten ? write_other_rewritten(readers, conversion, &error)
                           : write_other(readers[0], conversion, &error);
  int status = result == 0 ? judge(readers, conversion->in_count, conversion, &error) : failed(&error);
  close_inputs(readers, conversion->in_count);
  return status;
}

static const struct cli_command command_convert;

/* Chooses the output's format. Returns CLI_RUN, or the exit status for wrong usage. */
static int choose_format(struct conversion *conversion) {
  const char *out = conversion->out;
  conversion->to = conversion->settings->to ? conversion->settings->to : format_by_suffix(out);
  if (!conversion->to && strcmp(out, "-") == 0)
    conversion->to = format_by_name("text");
  const struct format *to = conversion->to;
  if (!to)
    return cli_wrong(CONVERT, &command_convert, "can't tell the format from the name %s: give it with --to", out);
  if (!to->suffix)
    return cli_wrong(CONVERT, &command_convert, "format '%s' can only be read", to->name);
  if (strcmp(out, "-") == 0 && dump_format_by_name(to->name) < 0 && !to->export)
    return cli_wrong(CONVERT, &command_convert, "a %s file can't be written to a stream", to->name);
  if (conversion->settings->archive && strcmp(to->name, "tape") != 0)
    return cli_wrong(CONVERT, &command_convert, "--archive is a form of the tape format, not of %s", to->name);
  return CLI_RUN;
}

static int run(void *parsed, struct cli_words words) {
  const struct settings *settings = parsed;
  if (settings->list)
    return list_formats();
  if (words.count < 2)
    return cli_wrong(CONVERT, &command_convert, "convert needs IN and OUT");
  if (words.count > 2 && !(settings->rewriting && settings->rewriting->takes_several))
    return cli_wrong(CONVERT, &command_convert, "too many arguments: %s", words.at[2]);
  struct conversion conversion = {
      .settings = settings, .in = words.at, .in_count = (uint32_t)words.count - 1, .out = words.at[words.count - 1]};
  int status =
      cli_spares_inputs(CONVERT, &command_convert, conversion.out, (struct cli_words){words.at, words.count - 1});
  if (status == CLI_RUN)
    status = choose_format(&conversion);
  return status == CLI_RUN ? convert(&conversion) : status;
}

static const struct cli_command command_convert = {
    .called = "heaptape convert",
    .summary = "translate between formats",
    .synopsis = "[OPTION...] IN OUT\n--merge [OPTION...] IN... OUT\n--list",
    .details =
        "Formats are detected or named; --list prints those known. - is standard input or output. Exit 1, after the "
        "output is written, where a history that was read is not legal, as 'heaptape check' calls it.",
    .options = options,
    .settings_bytes = sizeof(struct settings),
    .turn = 5,
    .run = run};
REGISTER_COMMAND(command_convert);

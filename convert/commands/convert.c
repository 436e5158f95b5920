/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"

#include "convert/history/merge.h"
#include "convert/history/trace_info.h"
#include "convert/inspect/dump.h"
#include "convert/rewrite/rewrite.h"
#include "core/files/output_file.h"
#include "core/files/temporary_file.h"
#include "core/workload/witness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int list_formats(void) {
  for (const struct format *format = formats; format->name; format++) {
    bool reads = format->import || !strcmp(format->name, "tape"), writes = format->suffix != NULL;
    printf("%-14s %-11s %s\n", format->name,
           reads && writes ? "read, write"
           : reads         ? "read"
                           : "write",
           format->description);
  }
  return finish_output(EXIT_DONE);
}

static int write_format(struct trace_reader *reader, const struct format *to, struct output_stream out,
                        const struct options *options, struct error *error) {
  struct progress progress;
  struct export_report report = {""};
  if (!to->export)
    return dump_trace(reader, &(struct dump_options){dump_format_by_name(to->name), DUMP_NO_STACKS, MERGE_ALL_THREADS},
                      out, error);
  struct history_options history = history_options_of(options, &progress, "convert", reader);
  struct export_job job = {to->export, reader, out, &history};
  int result = export_trace(&job, &report, error);
  progress_end(&progress);
  if (result == 0 && report.text[0])
    diagnostics_warning(CONVERT, "%s: %s", out.name, report.text);
  return result;
}

static int write_to(struct trace_reader *reader, const struct format *to, const struct options *options,
                    struct error *error) {
  struct output_file file;
  struct output_stream stream;
  if (output_stream_begin(&stream, &file, options->out, error) != 0)
    return -1;
  int result = write_format(reader, to, stream, options, error);
  return output_stream_end(&stream, &file, result, error);
}

static int import_to(const struct format *from, const struct options *options, struct error *error) {
  struct output_file file;
  struct import_report report = {""};
  if (output_file_begin(&file, options->out, error) != 0)
    return -1;
  struct import_options import = options->import;
  import.report = &report;
  int result = import_file(from->import, options->in, &import, file.temporary, error);
  if (result == 0)
    print_import_report(options->in, &report);
  return output_file_end(&file, result, error);
}

static bool rewrites(const struct options *options) {
  return options->merge || options->slices || options->anonymise || options->archive;
}

static bool is_distilled(const struct trace_summary *summary) {
  struct trace_info info;
  trace_info_read(&info, summary->info_json);
  bool distilled = json_object_get(info.json, "distilled") != NULL;
  trace_info_free(&info);
  return distilled;
}

/* Merges, slices and so on into the file at path. Closes the readers. */
static int rewrite_to(struct trace_reader **readers, const char *path, const struct options *options, bool archive,
                      struct error *error) {
  struct progress progress;
  struct rewrite rewrite = {.slice = options->slice,
                            .merge = options->merge,
                            .anonymise = options->anonymise,
                            .archive = archive,
                            .history = history_options_of(options, &progress, "convert", readers[0])};
  bool drops = false, drops_samples = false, drops_manifest = false;
  for (uint32_t i = 0; i < options->input_count; i++) {
    const struct trace_summary *summary = trace_reader_summary(readers[i]);
    drops |= (options->merge || options->slices) && trace_summary_has_accesses(summary);
    drops_samples |= options->anonymise && summary->access_samples.recorded;
    drops_manifest |= (options->merge || options->slices) && is_distilled(summary);
  }
  rewrite.slice.texts = options->slices;
  int result = rewrite_trace(&rewrite, readers, options->input_count, path, error);
  progress_end(&progress);
  if (result == 0 && drops)
    diagnostics_warning(CONVERT, "%s: data accesses are left out: a slice or a merged trace has none", options->out);
  if (result == 0 && drops_samples)
    diagnostics_warning(CONVERT, "%s: samples of data accesses are left out: their addresses are the program's",
                        options->out);
  if (result == 0 && drops_manifest)
    diagnostics_warning(CONVERT, "%s: is not a distillate any more: a slice or merged trace says nothing of the whole",
                        options->out);
  return result;
}

static int open_inputs(struct trace_reader **readers, const struct options *options, struct error *error) {
  for (uint32_t i = 0; i < options->input_count; i++) {
    const struct format *format = input_format(options->inputs[i], options->from, error);
    if (!format || open_input(&readers[i], options->inputs[i], format, options, error) != 0) {
      while (i > 0)
        trace_reader_close(readers[--i]);
      return -1;
    }
  }
  return 0;
}

/* The input as one trace: rewritten, if requested, through a temporary one. */
static int open_rewritten(struct trace_reader **reader, const struct options *options, struct error *error) {
  struct trace_reader **readers = calloc(options->input_count, sizeof *readers);
  struct temporary_file temporary = {.fd = -1};
  int result = readers ? open_inputs(readers, options, error) : error_set(error, options->in, "out of memory");
  if (result == 0 && !rewrites(options)) {
    *reader = readers[0];
  } else if (result == 0) {
    result = temporary_file_open(&temporary, error);
    if (result == 0)
      result = rewrite_to(readers, temporary.path, options, false, error);
    if (result == 0)
      result = trace_reader_open(reader, temporary.path, error);
  }
  temporary_file_close(&temporary);
  free(readers);
  return result;
}

static int convert_to_tape(const struct format *from, const struct options *options, struct error *error) {
  if (from->import && !rewrites(options))
    return import_to(from, options, error);
  struct output_file file;
  struct trace_reader **readers = calloc(options->input_count, sizeof *readers);
  int result = readers ? open_inputs(readers, options, error) : error_set(error, options->in, "out of memory");
  if (result == 0)
    result = output_file_begin(&file, options->out, error);
  if (result == 0)
    result = output_file_end(&file, rewrite_to(readers, file.temporary, options, options->archive, error), error);
  free(readers);
  return result;
}

static int convert_trace(const struct format *from, const struct format *to, const struct options *options) {
  struct error error = {""};
  struct trace_reader *reader = NULL;
  struct witness witness;
  int result;
  if (strcmp(to->name, "tape") == 0) {
    result = convert_to_tape(from, options, &error);
    return result == 0 ? EXIT_DONE : failed(&error);
  }
  if (open_rewritten(&reader, options, &error) != 0)
    return failed(&error);
  if (strcmp(to->name, "work") == 0)
    result = compile_to(reader, options->out, options, &witness, &error);
  else
    result = write_to(reader, to, options, &error);
  trace_reader_close(reader);
  return result == 0 ? EXIT_DONE : failed(&error);
}

static int run(const struct options *options) {
  struct error error = {""};
  if (options->list)
    return list_formats();
  if (!options->out)
    return usage_error("convert needs IN and OUT");
  if (options->from && !format_by_name(options->from))
    return usage_error("unknown format '%s': convert --list shows those known", options->from);
  const struct format *to = options->to ? format_by_name(options->to) : format_by_suffix(options->out);
  if (options->to && !to)
    return usage_error("unknown format '%s': convert --list shows those known", options->to);
  if (!to && strcmp(options->out, "-") == 0)
    to = format_by_name("text");
  if (!to)
    return usage_error("can't tell the format from the name %s: give it with --to", options->out);
  if (!to->suffix)
    return usage_error("format '%s' can only be read", to->name);
  if (strcmp(options->out, "-") == 0 && dump_format_by_name(to->name) < 0 && !to->export)
    return usage_error("a %s file can't be written to a stream", to->name);
  if (options->archive && strcmp(to->name, "tape") != 0)
    return usage_error("--archive is a form of the tape format, not of %s", to->name);
  const struct format *from = input_format(options->in, options->from, &error);
  return from ? convert_trace(from, to, options) : failed(&error);
}

const struct command command_convert = {
    .name = "convert",
    .help =
        "usage: heaptape convert [--from FMT] [--allow-gaps] [--process PID] [--slice SPEC]... [--anonymise]\n"
        "                        [--archive] IN [--to FMT] OUT\n"
        "       heaptape convert --merge [--slice SPEC]... [--anonymise] [--archive] IN... OUT\n"
        "       heaptape convert --list\n"
        "\n"
        "Formats are detected or named; --list prints those known.\n"
        "\n"
        "  --slice SPEC   a part that is itself a legal history: time=1.5s..3s, progress=10%..20%, progress=1000..5000\n"
        "                 (events), mark=FROM..TO, thread=0,3..5, size=1k..64k. Either side may be left out; several specs are\n"
        "                 the intersection. Objects that are live where the part begins are acquired in a prologue.\n"
        "  --merge        traces of several processes as one process with all their threads\n"
        "  --anonymise    only what a replay needs: no addresses, times, names, stacks, marks\n"
        "  --archive      the smallest form; everything that reads traces reads it\n"
        "  --allow-gaps   accept a recording that reports lost events; each loss becomes a gap in the trace\n"
        "  --process PID  of a recording of several processes, take this one\n",
    .run = run};

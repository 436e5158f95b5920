/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"

#include "convert/compile/compile.h"
#include "convert/origins/origins_write.h"
#include "convert/whatif/rewriter.h"
#include "core/base/files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int usage_error(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  diagnostics_begin_error(CONVERT);
  vfprintf(stderr, format, arguments);
  fprintf(stderr, " (heaptape-convert --help)\n");
  va_end(arguments);
  return EXIT_USAGE;
}

int failed(const struct error *error) {
  diagnostics_error(CONVERT, "%s", error->text[0] ? error->text : "failed");
  return EXIT_FAILED;
}

int finish_output(int status) {
  if (fflush(stdout) == 0 && !ferror(stdout))
    return status;
  diagnostics_error(CONVERT, "standard output: can't write: %s", strerror(errno));
  return EXIT_FAILED;
}

void print_import_report(const char *in, const struct import_report *report) {
  if (report->text[0])
    diagnostics_warning(CONVERT, "%s: %s", in, report->text);
}

int open_input(struct trace_reader **reader, const char *in, const struct format *format, const struct options *options,
               struct error *error) {
  struct import_report report = {""};
  struct import_options import = options->import;
  import.report = &report;
  int result = input_open(reader, in, format, &import, error);
  if (result == 0)
    print_import_report(in, &report);
  return result;
}

static void show_progress(void *context, uint64_t events) {
  progress_show(context, events);
}

struct history_options history_options_of(const struct options *options, struct progress *progress, const char *label,
                                          const struct trace_reader *reader) {
  progress_begin(progress, label, trace_reader_summary(reader)->events);
  return (struct history_options){.horizon_ns = options->horizon_ns,
                                  .check_ranges = options->ranges,
                                  .progress = show_progress,
                                  .progress_context = progress};
}

/* Version of the shapes that docs/formats/SCHEMAS.md names. */
enum { OUTPUT_SCHEMA = 1 };

int print_json(json_t *object) {
  json_t *whole = json_pack("{s:i}", "schema", OUTPUT_SCHEMA);
  json_object_update(whole, object);
  json_dumpf(whole, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
  printf("\n");
  json_decref(whole);
  json_decref(object);
  return finish_output(EXIT_DONE);
}

/* Reports accesses that the replay will not make. */
static void print_lost_accesses(const char *in, const struct trace_reader *reader,
                                const struct access_order_counts *compiled) {
  uint64_t lost = compiled->lost, all = compiled->objects + compiled->other + lost;
  uint64_t lost_before = trace_reader_summary(reader)->accesses.lost;
  if (lost)
    diagnostics_warning(
        CONVERT, "%s: %" PRIu64 " of %" PRIu64 " data accesses left out, as their objects are not live at that point",
        in, lost, all);
  if (compiled->ops_without_call)
    diagnostics_warning(CONVERT, "%s: the data accesses end %" PRIu64 " calls before the events", in,
                        compiled->ops_without_call);
  if (lost_before)
    diagnostics_warning(CONVERT, "%s: %" PRIu64 " data accesses were lost when the trace was made", in, lost_before);
}

struct compile_results {
  struct witness *witness;
  struct error *error;
};

/* The workload's companions, NULL where they are not wanted. */
struct companions {
  struct output_file accesses, origins;
};

static int begin_companions(struct companions *companions, const struct options *options, struct error *error) {
  if (options->accesses && output_file_begin(&companions->accesses, options->accesses, error) != 0)
    return -1;
  if (!options->origins || output_file_begin(&companions->origins, options->origins, error) == 0)
    return 0;
  return options->accesses ? output_file_end(&companions->accesses, -1, error) : -1;
}

static int end_companions(struct companions *companions, const struct options *options, int result,
                          struct error *error) {
  if (options->accesses)
    result = output_file_end(&companions->accesses, result, error);
  if (options->origins)
    result = output_file_end(&companions->origins, result, error);
  return result;
}

/* Compiles the trace into its outputs, including origins if requested. */
static int compile_with_origins(struct trace_reader *reader, struct compile_outputs *outputs,
                                const struct history_options *history, struct witness *witness, struct error *error) {
  if (!outputs->origins)
    return compile_trace(reader, outputs, history, witness, error);
  struct origins_writer *writer;
  int result = origins_writer_open(&writer, reader, outputs->origins, error);
  if (result == 0) {
    const struct compile_observer observer = origins_writer_observer(writer);
    outputs->observer = &observer;
    result = compile_trace(reader, outputs, history, witness, error);
    outputs->observer = NULL;
  }
  if (result == 0)
    result = origins_writer_finish(writer, outputs->workload, error);
  origins_writer_free(writer);
  return result;
}

static int run_rewriting(void *context, const struct history_consumer *consumer, struct witness *witness,
                         struct error *error) {
  return rewriting_run(context, consumer, witness, error);
}

static json_t *about_rewriting(void *context) {
  return ((struct rewriting *)context)->about;
}

/* The same with the rewriting that --group requests. */
static int compile_with_groups(struct trace_reader *reader, struct compile_outputs *outputs,
                               const struct history_options *history, const struct options *options,
                               struct compile_results *results) {
  struct rewriting rewriting = {.reader = reader,
                                .options = history,
                                .groups = {options->groups.at, options->groups.count},
                                .positions = {options->positions.at, options->positions.count}};
  const struct compile_rewriting wanted = {&rewriting, run_rewriting, about_rewriting};
  outputs->rewriting = options->groups.count ? &wanted : NULL;
  int result = compile_with_origins(reader, outputs, history, results->witness, results->error);
  outputs->rewriting = NULL;
  json_decref(rewriting.about);
  return result;
}

int compile_to(struct trace_reader *reader, const char *out, const struct options *options, struct witness *witness,
               struct error *error) {
  struct output_file file;
  struct companions companions;
  struct progress progress;
  if (output_file_begin(&file, out, error) != 0)
    return -1;
  if (begin_companions(&companions, options, error) != 0)
    return output_file_end(&file, -1, error);
  struct compile_outputs outputs = {.workload = file.temporary,
                                    .accesses = options->accesses ? companions.accesses.temporary : NULL,
                                    .origins = options->origins ? companions.origins.temporary : NULL};
  struct history_options history = history_options_of(options, &progress, "compile", reader);
  int result = compile_with_groups(reader, &outputs, &history, options, &(struct compile_results){witness, error});
  progress_end(&progress);
  result = end_companions(&companions, options, result, error);
  result = output_file_end(&file, result, error);
  if (result == 0 && options->accesses)
    print_lost_accesses(options->in, reader, &outputs.compiled);
  return result;
}

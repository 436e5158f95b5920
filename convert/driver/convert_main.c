/* heaptape-convert: the command line of convert/. All that prints diagnostics and exits is here. */
#include "convert/compile/compile.h"
#include "convert/driver/inputs.h"
#include "convert/driver/usage.h"
#include "convert/formats/formats.h"
#include "convert/history/merge.h"
#include "convert/inspect/dump.h"
#include "convert/inspect/dump_stacks.h"
#include "convert/inspect/dump_workload.h"
#include "convert/inspect/info.h"
#include "convert/inspect/profile.h"
#include "convert/rewrite/rewrite.h"
#include "convert/rewrite/temporary_trace.h"
#include "core/base/output_file.h"
#include "core/base/progress.h"
#include "core/workload/witness.h"
#include "core/workload/workload_check.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct options {
  const char *command, *in, *out, *from, *to, *format;
  char **inputs; /* of convert: all but the last argument */
  uint32_t input_count;
  enum dump_stacks stacks;
  bool json, ranges, list, has_thread, nodes, merge, anonymise, archive;
  struct slice_spec slice;
  json_t *slices; /* as given; NULL: none */
  uint64_t thread;
  double horizon_ns;
};

static int usage_error(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "heaptape-convert: ");
  vfprintf(stderr, format, arguments);
  fprintf(stderr, " (heaptape-convert --help)\n");
  va_end(arguments);
  return EXIT_USAGE;
}

static int failed(const struct trace_error *error) {
  fprintf(stderr, "heaptape-convert: %s\n", error->text[0] ? error->text : "failed");
  return EXIT_FAILED;
}

/* Output that got lost (a full disk, a closed pipe) is a failure. */
static int finish_output(int status) {
  if (fflush(stdout) == 0 && !ferror(stdout))
    return status;
  fprintf(stderr, "heaptape-convert: standard output: can't write: %s\n", strerror(errno));
  return EXIT_FAILED;
}

/* Set from the command line before anything is read. */
static struct import_options import_options;

static void tell_report(const char *in, const struct import_report *report) {
  if (report->text[0])
    fprintf(stderr, "heaptape-convert: %s: %s\n", in, report->text);
}

static int import_foreign(const struct format *format, const char *in, const char *out, struct trace_error *error) {
  struct import_report report = {""};
  int result = import_file(format->import, in, &import_options, out, &report, error);
  if (result == 0)
    tell_report(in, &report);
  return result;
}

static int open_input(struct trace_reader **reader, const char *in, const struct format *format,
                      struct trace_error *error) {
  struct import_report report = {""};
  int result = input_open(reader, in, format, &import_options, &report, error);
  if (result == 0)
    tell_report(in, &report);
  return result;
}

static void show_progress(void *context, uint64_t events) {
  progress_show(context, events);
}

static struct history_options history_options_of(const struct options *options, struct progress *progress,
                                                 const char *label, const struct trace_reader *reader) {
  progress_begin(progress, label, trace_reader_summary(reader)->events);
  return (struct history_options){.horizon_ns = options->horizon_ns,
                                  .check_ranges = options->ranges,
                                  .progress = show_progress,
                                  .progress_context = progress};
}

static int print_json(json_t *object) {
  json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
  printf("\n");
  json_decref(object);
  return finish_output(EXIT_DONE);
}

static int print_witness(const struct witness *witness, bool json) {
  if (json)
    return print_json(witness_json(witness));
  witness_print(witness, stdout);
  return finish_output(EXIT_DONE);
}

/* IN.tape becomes IN.work, other names get .work appended. To be freed. */
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

static int compile_to(struct trace_reader *reader, const char *out, const struct options *options,
                      struct witness *witness, struct trace_error *error) {
  struct output_file file;
  struct progress progress;
  if (output_file_begin(&file, out, error) != 0)
    return -1;
  struct history_options history = history_options_of(options, &progress, "compile", reader);
  int result = compile_trace(reader, file.temporary, &history, witness, error);
  progress_end(&progress);
  return output_file_end(&file, result, error);
}

static int command_compile(const struct options *options) {
  struct trace_error error = {""};
  struct trace_reader *reader = NULL;
  struct witness witness;
  if (!options->out && strcmp(options->in, "-") == 0)
    return usage_error("compile - needs -o OUT.work");
  if (options->out && strcmp(options->out, "-") == 0)
    return usage_error("a work file can't be written to a stream");
  const struct format *format = input_format(options->in, options->from, &error);
  if (!format || open_input(&reader, options->in, format, &error) != 0)
    return failed(&error);
  char *out = options->out ? strdup(options->out) : default_workload_path(options->in);
  int result = out ? compile_to(reader, out, options, &witness, &error) : -1;
  trace_reader_close(reader);
  int status = EXIT_DONE;
  if (result != 0) {
    status = failed(&error);
  } else {
    if (!witness_ok(&witness))
      fprintf(stderr, "heaptape-convert: %s: not a legal history: check says what is wrong\n", options->in);
    if (options->json)
      status = print_json(json_pack("{ss so}", "out", out, "witness", witness_json(&witness)));
    else
      fprintf(stderr, "%s: %" PRIu64 " ops of %" PRIu32 " threads, peak %" PRIu64 " live bytes\n", out, witness.ops,
              witness.threads, witness.peak_live_bytes);
  }
  free(out);
  return status;
}

static int check_workload_file(const struct options *options, struct trace_error *error) {
  struct workload workload;
  struct workload_proof proof;
  if (workload_open(&workload, input_path(options->in), error) != 0)
    return failed(error);
  int result = workload_check(&workload, &proof, error);
  workload_close(&workload);
  if (result != 0)
    return failed(error);
  if (options->json)
    return print_json(workload_proof_json(&proof));
  workload_proof_print(&proof, stdout);
  return finish_output(EXIT_DONE);
}

static int command_check(const struct options *options) {
  struct trace_error error = {""};
  struct trace_reader *reader = NULL;
  struct witness witness;
  struct progress progress;
  const struct format *format = input_format(options->in, options->from, &error);
  if (!format)
    return failed(&error);
  if (strcmp(format->name, "work") == 0)
    return check_workload_file(options, &error);
  if (open_input(&reader, options->in, format, &error) != 0)
    return failed(&error);
  struct history_options history = history_options_of(options, &progress, "check", reader);
  int result = history_run(reader, &history, NULL, &witness, &error);
  progress_end(&progress);
  trace_reader_close(reader);
  if (result != 0)
    return failed(&error);
  int status = print_witness(&witness, options->json);
  return status != EXIT_DONE || witness_ok(&witness) ? status : EXIT_FAILED;
}

static int print_info(json_t *info, const struct options *options, const struct trace_error *error) {
  if (!info)
    return failed(error);
  if (options->json)
    return print_json(info);
  info_print(info, stdout);
  json_decref(info);
  return finish_output(EXIT_DONE);
}

static int command_info(const struct options *options) {
  struct trace_error error = {""};
  struct trace_reader *reader = NULL;
  struct workload workload;
  struct progress progress;
  const struct format *format = input_format(options->in, options->from, &error);
  if (!format)
    return failed(&error);
  if (strcmp(format->name, "work") == 0) {
    if (workload_open(&workload, input_path(options->in), &error) != 0)
      return failed(&error);
    json_t *info = info_of_workload(&workload, &error);
    workload_close(&workload);
    return print_info(info, options, &error);
  }
  if (open_input(&reader, options->in, format, &error) != 0)
    return failed(&error);
  struct history_options history = history_options_of(options, &progress, "info", reader);
  json_t *info = info_of_trace(reader, &history, &error);
  progress_end(&progress);
  trace_reader_close(reader);
  return print_info(info, options, &error);
}

static int command_profile(const struct options *options) {
  struct trace_error error = {""};
  struct trace_reader *reader = NULL;
  struct progress progress;
  const struct format *format = input_format(options->in, options->from, &error);
  if (!format || open_input(&reader, options->in, format, &error) != 0)
    return failed(&error);
  struct history_options history = history_options_of(options, &progress, "profile", reader);
  json_t *profile = profile_of_trace(reader, &history, &error);
  progress_end(&progress);
  trace_reader_close(reader);
  return profile ? print_json(profile) : failed(&error);
}

static int dump_format_by_name(const char *name) {
  static const char *const names[] = {"text", "csv", "jsonl"};
  for (int i = 0; i < 3; i++)
    if (strcmp(names[i], name) == 0)
      return i;
  return -1;
}

static int dump_workload_file(const struct options *options, enum dump_format format) {
  struct trace_error error = {""};
  struct workload workload;
  if (workload_open(&workload, input_path(options->in), &error) != 0)
    return failed(&error);
  int result = -1;
  if (options->has_thread && options->thread >= workload.header.threads)
    trace_error_set(&error, options->in, "has %" PRIu32 " threads only", workload.header.threads);
  else
    result = dump_workload(&workload, format, options->has_thread ? (uint32_t)options->thread : MERGE_ALL_THREADS,
                           stdout, "standard output", &error);
  workload_close(&workload);
  return result == 0 ? EXIT_DONE : failed(&error);
}

static int command_dump(const struct options *options) {
  struct trace_error error = {""};
  struct trace_reader *reader = NULL;
  int dump_format = dump_format_by_name(options->format ? options->format : "text");
  if (dump_format < 0)
    return usage_error("dump knows the formats text, csv and jsonl, not '%s'", options->format);
  const struct format *format = input_format(options->in, options->from, &error);
  if (format && strcmp(format->name, "work") == 0)
    return dump_workload_file(options, (enum dump_format)dump_format);
  if (!format || open_input(&reader, options->in, format, &error) != 0)
    return failed(&error);
  int result = -1;
  if (options->nodes)
    result = dump_stack_nodes(reader, options->stacks == DUMP_STACKS_FETCHED, stdout, "standard output", &error);
  else if (options->has_thread && options->thread >= trace_reader_summary(reader)->threads)
    trace_error_set(&error, options->in, "has threads 0 to %" PRIu32 " only",
                    trace_reader_summary(reader)->threads - 1);
  else
    result = dump_trace(reader, (enum dump_format)dump_format, options->stacks,
                        options->has_thread ? (uint32_t)options->thread : MERGE_ALL_THREADS, stdout, "standard output",
                        &error);
  trace_reader_close(reader);
  return result == 0 ? EXIT_DONE : failed(&error);
}

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

static int write_format(struct trace_reader *reader, const struct format *to, FILE *stream, const char *out,
                        const struct options *options, struct trace_error *error) {
  struct progress progress;
  struct export_report report = {""};
  if (!to->export)
    return dump_trace(reader, (enum dump_format)dump_format_by_name(to->name), DUMP_NO_STACKS, MERGE_ALL_THREADS,
                      stream, out, error);
  struct history_options history = history_options_of(options, &progress, "convert", reader);
  int result = export_trace(to->export, reader, stream, out, &history, &report, error);
  progress_end(&progress);
  if (result == 0 && report.text[0])
    fprintf(stderr, "heaptape-convert: %s: %s\n", out, report.text);
  return result;
}

/* Writes to a file that appears whole, or to standard output. */
static int write_to(struct trace_reader *reader, const struct format *to, const struct options *options,
                    struct trace_error *error) {
  const char *out = options->out;
  if (strcmp(out, "-") == 0)
    return write_format(reader, to, stdout, "standard output", options, error);
  struct output_file file;
  if (output_file_begin(&file, out, error) != 0)
    return -1;
  FILE *stream = fopen(file.temporary, "we");
  int result =
      stream ? write_format(reader, to, stream, out, options, error) : trace_error_errno(error, out, "can't create");
  if (stream && fclose(stream) != 0)
    result = trace_error_errno(error, out, "can't write");
  return output_file_end(&file, result, error);
}

static int import_to(const struct format *from, const char *in, const char *out, struct trace_error *error) {
  struct output_file file;
  if (output_file_begin(&file, out, error) != 0)
    return -1;
  int result = import_foreign(from, in, file.temporary, error);
  return output_file_end(&file, result, error);
}

static bool rewrites(const struct options *options) {
  return options->merge || options->slices || options->anonymise || options->archive;
}

/* Merges, slices and so on into the file at path. Closes the readers. */
static int rewrite_to(struct trace_reader **readers, uint32_t count, const char *path, const struct options *options,
                      bool archive, struct trace_error *error) {
  struct progress progress;
  struct rewrite rewrite = {.slice = options->slice,
                            .slices = options->slices,
                            .merge = options->merge,
                            .anonymise = options->anonymise,
                            .options = {.archive = archive},
                            .history = history_options_of(options, &progress, "convert", readers[0])};
  int result = rewrite_trace(&rewrite, readers, count, path, error);
  progress_end(&progress);
  return result;
}

static int open_inputs(struct trace_reader **readers, const struct options *options, struct trace_error *error) {
  for (uint32_t i = 0; i < options->input_count; i++) {
    const struct format *format = input_format(options->inputs[i], options->from, error);
    if (!format || open_input(&readers[i], options->inputs[i], format, error) != 0) {
      while (i > 0)
        trace_reader_close(readers[--i]);
      return -1;
    }
  }
  return 0;
}

/* The input as one trace: rewritten if that was asked for, through a temporary one. */
static int open_rewritten(struct trace_reader **reader, const struct options *options, struct trace_error *error) {
  struct trace_reader **readers = calloc(options->input_count, sizeof *readers);
  struct temporary_trace temporary = {.fd = -1};
  int result = readers ? open_inputs(readers, options, error) : trace_error_set(error, options->in, "out of memory");
  if (result == 0 && !rewrites(options)) {
    *reader = readers[0];
  } else if (result == 0) {
    result = temporary_trace_begin(&temporary, error);
    if (result == 0)
      result = rewrite_to(readers, options->input_count, temporary.path, options, false, error);
    if (result == 0)
      result = temporary_trace_open(&temporary, reader, error);
  }
  temporary_trace_abort(&temporary);
  free(readers);
  return result;
}

static int convert_to_tape(const struct format *from, const struct options *options, struct trace_error *error) {
  if (from->import && !rewrites(options))
    return import_to(from, options->in, options->out, error);
  struct output_file file;
  struct trace_reader **readers = calloc(options->input_count, sizeof *readers);
  int result = readers ? open_inputs(readers, options, error) : trace_error_set(error, options->in, "out of memory");
  if (result == 0)
    result = output_file_begin(&file, options->out, error);
  if (result == 0)
    result = output_file_end(
        &file, rewrite_to(readers, options->input_count, file.temporary, options, options->archive, error), error);
  free(readers);
  return result;
}

static int convert_trace(const struct format *from, const struct format *to, const struct options *options) {
  struct trace_error error = {""};
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

static int command_convert(const struct options *options) {
  struct trace_error error = {""};
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

static bool parse_number(const char *text, double *number) {
  char *end;
  errno = 0;
  *number = strtod(text, &end);
  return end != text && *end == '\0' && errno == 0 && *number >= 0 && *number < 0x1p63;
}

/* Returns 0, or the exit status + 1. */
static int parse_options(struct options *options, int argc, char **argv) {
  static const struct option long_options[] = {
      {"output", required_argument, NULL, 'o'},  {"json", no_argument, NULL, 'j'},
      {"ranges", no_argument, NULL, 'r'},        {"list", no_argument, NULL, 'l'},
      {"thread", required_argument, NULL, 't'},  {"horizon", required_argument, NULL, 'z'},
      {"from", required_argument, NULL, 'f'},    {"to", required_argument, NULL, 'T'},
      {"format", required_argument, NULL, 'F'},  {"allow-gaps", no_argument, NULL, 'g'},
      {"process", required_argument, NULL, 'p'}, {"slice", required_argument, NULL, 's'},
      {"stacks", no_argument, NULL, 'k'},        {"debuginfod", no_argument, NULL, 'D'},
      {"nodes", no_argument, NULL, 'n'},         {"merge", no_argument, NULL, 'M'},
      {"anonymise", no_argument, NULL, 'A'},     {"archive", no_argument, NULL, 'C'},
      {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
  double number;
  const char *wrong;
  int option;
  opterr = 0;
  while ((option = getopt_long(argc, argv, "o:h", long_options, NULL)) != -1) {
    switch (option) {
    case 'o':
      options->out = optarg;
      break;
    case 'j':
      options->json = true;
      break;
    case 'r':
      options->ranges = true;
      break;
    case 'l':
      options->list = true;
      break;
    case 'f':
      options->from = optarg;
      break;
    case 'T':
      options->to = optarg;
      break;
    case 'F':
      options->format = optarg;
      break;
    case 't':
      if (!parse_number(optarg, &number) || number != (double)(uint64_t)number)
        return usage_error("--thread wants a thread number, not '%s'", optarg) + 1;
      options->thread = (uint64_t)number;
      options->has_thread = true;
      break;
    case 's':
      if ((wrong = slice_spec_parse(&options->slice, optarg)))
        return usage_error("--slice %s: %s", optarg, wrong) + 1;
      if (!options->slices)
        options->slices = json_array();
      json_array_append_new(options->slices, json_string(optarg));
      break;
    case 'k':
      options->stacks = options->stacks ? options->stacks : DUMP_STACKS;
      break;
    case 'D':
      options->stacks = DUMP_STACKS_FETCHED;
      break;
    case 'n':
      options->nodes = true;
      break;
    case 'M':
      options->merge = true;
      break;
    case 'A':
      options->anonymise = true;
      break;
    case 'C':
      options->archive = true;
      break;
    case 'z':
      if (!parse_number(optarg, &options->horizon_ns))
        return usage_error("--horizon wants a number of nanoseconds, not '%s'", optarg) + 1;
      break;
    case 'g':
      import_options.allow_gaps = true;
      break;
    case 'p':
      if (!parse_number(optarg, &number) || number != (double)(uint64_t)number)
        return usage_error("--process wants a process id, not '%s'", optarg) + 1;
      import_options.process = (uint64_t)number;
      import_options.has_process = true;
      break;
    case 'h':
      fputs(usage, stdout);
      return finish_output(EXIT_DONE) + 1;
    default:
      return usage_error("unknown option, or one that lacks its value: %s", argv[optind - 1]) + 1;
    }
  }
  return 0;
}

int main(int argc, char **argv) {
  struct options options = {.horizon_ns = -1, .slice = slice_everything()};
  int stop = parse_options(&options, argc, argv);
  if (stop)
    return stop - 1;
  static const struct {
    const char *name;
    int (*run)(const struct options *options);
  } commands[] = {{"compile", command_compile}, {"check", command_check}, {"info", command_info},
                  {"profile", command_profile}, {"dump", command_dump},   {"convert", command_convert}};
  int arguments = argc - optind;
  if (arguments == 0)
    return usage_error("no command");
  options.command = argv[optind];
  bool converts = strcmp(options.command, "convert") == 0;
  if (!options.merge && arguments > (converts ? 3 : 2))
    return usage_error("too many arguments: %s", argv[optind + arguments - 1]);
  if (arguments < 2 && !(converts && options.list))
    return usage_error("%s: no file given", options.command);
  options.in = arguments >= 2 ? argv[optind + 1] : NULL;
  if (arguments >= 3)
    options.out = argv[optind + arguments - 1];
  options.inputs = &argv[optind + 1];
  options.input_count = arguments >= 3 ? (uint32_t)arguments - 2 : 1;
  output_file_guard();
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (strcmp(options.command, commands[i].name) == 0)
      return commands[i].run(&options);
  return usage_error("unknown command '%s'", options.command);
}

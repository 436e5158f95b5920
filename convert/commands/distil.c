/* SPDX-License-Identifier: MIT */
#include "convert/distil/distil.h"
#include "convert/commands/commands.h"
#include "convert/rewrite/rewrite.h"
#include "core/base/files.h"
#include "core/base/os.h"
#include "core/base/vector.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* windows and distil: windows of a workload, as figures and as a trace that stands for the whole. */

struct distil_settings {
  struct input_settings input;
  const char *out, *plan, *accesses;
  uint64_t ops;
  bool json;
};

static const struct cli_option windows_options[] = {
    {"ops", 0, "N", cli_count_above_0, offsetof(struct distil_settings, ops), .help = "the size of a window"},
    {"output", 'o', "OUT", cli_text, offsetof(struct distil_settings, out), .help = "where the table goes",
     .fallback = "standard output"},
    {.name = "", .rows = input_options, .field = offsetof(struct distil_settings, input)},
    {.name = NULL},
};

static int write_windows(const struct workload *workload, const struct distil_settings *settings, struct error *error) {
  struct output_file file;
  struct output_stream stream;
  if (output_stream_begin(&stream, &file, settings->out, error) != 0)
    return -1;
  int result = window_features_write(workload, settings->ops, stream, error);
  return output_stream_end(&stream, &file, result, error);
}

static int run_windows(struct cli_words words) {
  struct distil_settings settings = {.out = "-"};
  struct error error = {""};
  struct input input;
  int status = cli_parse(&convert_program, &command_windows, &settings, &words);
  if (status != CLI_RUN)
    return status;
  if (settings.ops == 0)
    return cli_wrong(&convert_program, &command_windows, "windows needs --ops N");
  int result = input_open_workload(&input, words.at[0], &settings.input, &error);
  if (result == 0)
    result = write_windows(&input.workload, &settings, &error);
  input_close(&input);
  return result == 0 ? EXIT_DONE : failed(&error);
}

const struct cli_command command_windows = {
    .called = "heaptape-convert windows",
    .summary = "counts of each window of N ops",
    .synopsis = "--ops N [OPTION...] F",
    .details =
        "Describes each window of N ops of a trace or workload: a line of JSON that names the columns, then a row "
        "of 64-bit counts for each window (convert/distil/README.md).",
    .options = windows_options,
    .least = 1,
    .most = 1,
    .run = run_windows};

static const struct cli_option distil_options[] = {
    {"plan", 0, "PLAN.json", cli_text, offsetof(struct distil_settings, plan),
     .help = "what the distillate holds; 'heaptape distil' makes plans"},
    {"output", 'o', "OUT.tape", cli_text, offsetof(struct distil_settings, out),
     .help = "where the distillate goes; without it, only report how many ops it would have (--json)"},
    {"accesses", 0, "W.accesses", cli_text, offsetof(struct distil_settings, accesses),
     .help = "for a workload: the file that 'compile --accesses' wrote beside it; the windows then include their data "
             "accesses"},
    {"json", 0, NULL, cli_flag, offsetof(struct distil_settings, json), .help = "the result as JSON"},
    {.name = "", .rows = input_options, .field = offsetof(struct distil_settings, input)},
    {.name = NULL},
};

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

static int distil(const char *in, const struct distil_settings *settings, struct distil_counts *counts,
                  struct error *error) {
  struct input input;
  struct distil_plan plan = {.manifest = NULL};
  int result = read_plan(settings->plan, &plan, error);
  plan.accesses = settings->accesses;
  if (result == 0) {
    result = input_open_workload(&input, in, &settings->input, error);
    if (result == 0)
      result = distil_to(&input.workload, &plan, settings->out, counts, error);
    input_close(&input);
  }
  distil_plan_free(&plan);
  return result;
}

static int run_distil(struct cli_words words) {
  struct distil_settings settings = {.out = NULL};
  struct error error = {""};
  struct distil_counts counts;
  int status = cli_parse(&convert_program, &command_distil, &settings, &words);
  if (status != CLI_RUN)
    return status;
  if (!settings.plan)
    return cli_wrong(&convert_program, &command_distil, "distil needs --plan PLAN.json");
  if (settings.out ? strcmp(settings.out, "-") == 0 : !settings.json)
    return cli_wrong(&convert_program, &command_distil, "distil needs -o OUT.tape, or --json alone");
  if (distil(words.at[0], &settings, &counts, &error) != 0)
    return failed(&error);
  if (settings.json)
    return print_json(json_pack("{s:s? s:I s:I s:I s:I s:I}", "out", settings.out, "ops", (json_int_t)counts.ops,
                                "whole_ops", (json_int_t)counts.whole_ops, "counted_ops",
                                (json_int_t)counts.counted_ops, "warm_up_ops", (json_int_t)counts.warm_up_ops,
                                "objects", (json_int_t)counts.objects));
  if (!diagnostics.quiet)
    fprintf(stderr, "%s: %" PRIu64 " ops of %" PRIu64 ": %" PRIu64 " count, %" PRIu64 " warm up\n", settings.out,
            counts.ops, counts.whole_ops, counts.counted_ops, counts.warm_up_ops);
  return EXIT_DONE;
}

const struct cli_command command_distil = {
    .called = "heaptape-convert distil",
    .summary = "the distillate that a plan describes",
    .synopsis = "--plan PLAN.json [OPTION...] -o OUT.tape F\n--plan PLAN.json [OPTION...] --json F",
    .details =
        "Makes the distillate that a plan describes (convert/distil/distil.h) of a trace or workload: windows of its "
        "ops and objects that make up its memory, with the manifest by which figures of the whole are estimated.",
    .options = distil_options,
    .least = 1,
    .most = 1,
    .run = run_distil};

typedef VECTOR(uint32_t) thread_list;

struct reduce_settings {
  const char *out, *keep;
  uint64_t end;
  thread_list joined;
  bool json;
};

static const char *take_thread(void *field, const char *value) {
  thread_list *threads = field;
  uint32_t *added = vector_add(threads);
  return added ? cli_count_32(added, value) : "out of memory";
}

static const struct cli_option reduce_options[] = {
    {"output", 'o', "OUT.tape", cli_text, offsetof(struct reduce_settings, out), .help = "where the trace goes"},
    {"keep", 0, "FILE", cli_text, offsetof(struct reduce_settings, keep),
     .help = "a file of one byte for each object, in the order of their births; 0 leaves the object out, with all its "
             "calls. A call that is given NULL and acquires nothing counts as an object"},
    {"end", 0, "POSITION", cli_count, offsetof(struct reduce_settings, end),
     .help = "leave out the op at that position of the total order and all after it"},
    {"join", 0, "THREAD", take_thread, offsetof(struct reduce_settings, joined),
     .help = "thread 0 makes that thread's calls. Repeatable", .repeats = true},
    {"json", 0, NULL, cli_flag, offsetof(struct reduce_settings, json), .help = "the result as JSON"},
    {.name = NULL},
};

/* Maps the file of --keep: one byte for each object. */
static int map_kept(const char *path, struct workload_trace_selection *wanted, struct error *error) {
  struct stat about;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &about) != 0) {
    os_close(fd);
    return error_errno(error, path, "can't read");
  }
  static const uint8_t nothing[1];
  void *bytes = (void *)(uintptr_t)nothing;
  if (about.st_size > 0)
    bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (bytes == MAP_FAILED)
    return error_errno(error, path, "can't read");
  wanted->objects = bytes;
  wanted->object_count = (uint64_t)about.st_size;
  return 0;
}

static int reduce(const char *in, const struct reduce_settings *settings, struct workload_trace_counts *counts,
                  struct error *error) {
  struct workload workload;
  struct workload_trace_selection wanted = {
      .end = settings->end, .joined = settings->joined.at, .joined_count = (uint32_t)settings->joined.count};
  struct output_file file;
  if (workload_open(&workload, input_path(in), error) != 0)
    return -1;
  int result = settings->keep ? map_kept(settings->keep, &wanted, error) : 0;
  if (result == 0)
    result = output_file_begin(&file, settings->out, error);
  if (result == 0)
    result = output_file_end(&file, workload_trace_write(&workload, &wanted, file.temporary, counts, error), error);
  if (wanted.object_count)
    munmap((void *)(uintptr_t)wanted.objects, wanted.object_count);
  workload_close(&workload);
  return result;
}

static int run_reduce(struct cli_words words) {
  struct reduce_settings settings = {.end = UINT64_MAX};
  struct error error = {""};
  struct workload_trace_counts counts;
  int status = cli_parse(&convert_program, &command_reduce, &settings, &words);
  if (status != CLI_RUN)
    return status;
  if (!settings.out || strcmp(settings.out, "-") == 0)
    return cli_wrong(&convert_program, &command_reduce, "reduce needs -o OUT.tape");
  int result = reduce(words.at[0], &settings, &counts, &error);
  free(settings.joined.at);
  if (result != 0)
    return failed(&error);
  if (settings.json)
    return print_json(json_pack("{ss sI sI}", "out", settings.out, "objects", (json_int_t)counts.objects, "events",
                                (json_int_t)counts.events));
  return EXIT_DONE;
}

const struct cli_command command_reduce = {
    .called = "heaptape-convert reduce",
    .summary = "a trace of a workload or of a part of it",
    .synopsis = "[OPTION...] -o OUT.tape W.work",
    .details =
        "Makes a trace of a workload or of a part of it; 'heaptape minimise' tries its candidates with such traces.",
    .options = reduce_options,
    .least = 1,
    .most = 1,
    .run = run_reduce};

/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"
#include "convert/reduce/workload_trace.h"
#include "core/base/files.h"
#include "core/base/os.h"
#include "core/base/vector.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
    result = output_file_end(&file, workload_trace_write(&workload, &wanted, file.opened, counts, error), error);
  if (wanted.object_count)
    munmap((void *)(uintptr_t)wanted.objects, wanted.object_count);
  workload_close(&workload);
  return result;
}

static const struct cli_command command_reduce;

static int run_reduce(void *parsed, struct cli_words words) {
  const struct reduce_settings *settings = parsed;
  struct error error = {0};
  struct workload_trace_counts counts;
  if (!settings->out || strcmp(settings->out, "-") == 0)
    return cli_wrong(CONVERT, &command_reduce, "reduce needs -o OUT.tape");
  int result = reduce(words.at[0], settings, &counts, &error);
  free(settings->joined.at);
  if (result != 0)
    return failed(&error);
  if (settings->json)
    return print_json(json_pack("{ss sI sI}", "out", settings->out, "objects", (json_int_t)counts.objects, "events",
                                (json_int_t)counts.events));
  return EXIT_DONE;
}

static const struct cli_command command_reduce = {
    .called = "heaptape-convert reduce",
    .summary = "a trace of a workload or of a part of it",
    .synopsis = "[OPTION...] -o OUT.tape W.work",
    .details =
        "Makes a trace of a workload or of a part of it; 'heaptape minimise' tries its candidates with such traces.",
    .options = reduce_options,
    .least = 1,
    .most = 1,
    .defaults = &(const struct reduce_settings){.end = UINT64_MAX},
    .settings_bytes = sizeof(struct reduce_settings),
    .turn = 6,
    .run = run_reduce};
REGISTER_COMMAND(command_reduce);

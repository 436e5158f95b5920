/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"

#include "convert/rewrite/workload_trace.h"
#include "core/files/output_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Maps the file of --keep: one byte for each object. */
static int map_kept(const char *path, struct workload_trace_wanted *wanted, struct error *error) {
  struct stat about;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &about) != 0) {
    if (fd >= 0)
      close(fd);
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

static int reduce(const struct options *options, struct workload_trace_counts *counts, struct error *error) {
  struct workload workload;
  struct workload_trace_wanted wanted = {.end = options->has_end ? options->end : UINT64_MAX,
                                         .joined = options->joined.at,
                                         .joined_count = options->joined.count};
  struct output_file file;
  if (workload_open(&workload, input_path(options->in), error) != 0)
    return -1;
  int result = options->keep ? map_kept(options->keep, &wanted, error) : 0;
  if (result == 0)
    result = output_file_begin(&file, options->out, error);
  if (result == 0)
    result = output_file_end(&file, workload_trace_write(&workload, &wanted, file.temporary, counts, error), error);
  if (wanted.object_count)
    munmap((void *)(uintptr_t)wanted.objects, wanted.object_count);
  workload_close(&workload);
  return result;
}

static int run(const struct options *options) {
  struct error error = {""};
  struct workload_trace_counts counts;
  if (!options->out || strcmp(options->out, "-") == 0)
    return usage_error("reduce needs -o OUT.tape");
  if (reduce(options, &counts, &error) != 0)
    return failed(&error);
  if (options->json)
    return print_json(json_pack("{ss sI sI}", "out", options->out, "objects", (json_int_t)counts.objects, "events",
                                (json_int_t)counts.events));
  return EXIT_DONE;
}

const struct command command_reduce = {
    .name = "reduce",
    .help =
        "usage: heaptape-convert reduce W.work -o OUT.tape [--keep FILE] [--end POSITION] [--join THREAD]... [--json]\n"
        "\n"
        "Makes a trace of a workload or of a part of it; 'heaptape minimise' tries its candidates with such traces.\n"
        "--keep: a file of one byte for each object, in the order of their births; 0 leaves the object out, with all its\n"
        "calls. A call that is given NULL and acquires nothing counts as an object.\n"
        "--end: leaves out the op at that position of the total order and all after it.\n"
        "--join: thread 0 makes that thread's calls. Repeatable.\n",
    .run = run};

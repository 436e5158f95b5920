/* SPDX-License-Identifier: MIT */
/* heaptape-replay: one run of one workload on one allocator. In the process that it starts: the engine. */
#include "core/base/files.h"
#include "core/base/json.h"
#include "core/command/diagnostics.h"
#include "core/system/valgrind_requests.h"
#include "core/workload/workload_check.h"
#include "replay/engine/recorded_clock.h"
#include "replay/engine/state.h"
#include "replay/parent/environment.h"
#include "replay/parent/run.h"
#include "replay/parent/spec.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Which file, and which state of it. Contents do not change without it, so they need not be read to know them again. */
static void stamp_file(struct run_spec *spec) {
  struct stat about;
  if (fstat(spec->workload_fd, &about) == 0)
    snprintf(spec->stamp, sizeof spec->stamp, "%ju:%ju:%jd:%jd.%09ld:%jd.%09ld", (uintmax_t)about.st_dev,
             (uintmax_t)about.st_ino, (intmax_t)about.st_size, (intmax_t)about.st_mtim.tv_sec, about.st_mtim.tv_nsec,
             (intmax_t)about.st_ctim.tv_sec, about.st_ctim.tv_nsec);
}

/* Proves the workload legal, so that what goes wrong in a run is not the file's fault. The stamp is taken before: a
   file that is changed meanwhile gets another. Where the isolated heap serves objects, a caller's word is not enough:
   unlike the loop over ops, that heap checks nothing that it is passed. */
static int prove(struct run_spec *spec, const struct workload *workload, struct error *error) {
  struct workload_proof proof;
  if (spec->ops == 0)
    return error_set(error, spec->path, "has no ops: there is nothing to replay");
  stamp_file(spec);
  bool known = spec->stamp[0] && spec->checked && strcmp(spec->checked, spec->stamp) == 0;
  return known && workload->header.regions == 0 ? 0 : workload_check(workload, &proof, error);
}

/* Opens and proves the workload, and fills in the spec's fields that depend on it. */
static int open_workload(struct run_spec *spec, struct error *error) {
  bool standard_input = strcmp(spec->path, "-") == 0;
  if (standard_input)
    spec->path = "standard input";
  spec->workload_fd = standard_input ? STDIN_FILENO : open(spec->path, O_RDONLY);
  if (spec->workload_fd < 0)
    return error_errno(error, spec->path, "can't open");
  struct workload workload;
  if (workload_open_fd(&workload, spec->workload_fd, spec->path, error) != 0)
    return -1;
  spec->threads = workload.header.threads;
  spec->ops = workload.header.ops;
  spec->slots = workload.header.slots;
  int status = prove(spec, &workload, error);
  workload_close(&workload);
  return status;
}

static int write_json(json_t *json, const char *path, struct error *error) {
  struct output_stream stream;
  struct output_file file;
  if (output_stream_begin(&stream, &file, path ? path : "-", error) != 0)
    return -1;
  int result = json_write_line(json, stream.file) ? 0 : error_set(error, stream.name, "can't be written");
  return output_stream_end(&stream, &file, result, error);
}

static int make_run(const struct run_spec *spec, struct error *error) {
  struct run run;
  int status = run_engine(&run, spec, error);
  if (status == 0) {
    json_t *json = report_run(&run);
    status = write_json(json, spec->output, error);
    json_decref(json);
  } else if (run.result && run.result->fault[0] && spec->output) {
    json_t *json = json_pack("{s:s, s:s}", "kind", "allocator_at_fault", "fault", run.result->fault);
    struct error unwritten;
    write_json(json, spec->output, &unwritten); /* the run's own error is the one to report */
    json_decref(json);
  }
  bool wrong_usage = run.wrong_preload;
  run_free(&run);
  return status == 0 ? CLI_DONE : wrong_usage ? CLI_WRONG_USAGE : CLI_FAILED;
}

/* Whoever writes a spec has built this environment. */
static void say_left_out(void) {
  struct text_line names = {.used = 0};
  environment_left_out(&names);
  if (names.used > 0 && !diagnostics.quiet)
    fprintf(stderr, "heaptape-replay: not passed on: %s (--preload and --env set an allocator)\n", names.text);
}

int main(int count, char **arguments) {
  int result_fd, workload_fd;
  valgrind_request(VALGRIND_REQUEST_LOADED, (const unsigned long[VALGRIND_ARGUMENTS]){0});
  recorded_clock_setup();
  /* The engine's process: nothing before this line, and nothing below engine_main, calls malloc. */
  if (count == 2 && sscanf(arguments[1], "--engine=%d,%d", &result_fd, &workload_fd) == 2)
    return engine_main(result_fd, workload_fd);
  recorded_clock_stay_real();
  if (count == 2 && strcmp(arguments[1], "--describe") == 0)
    return spec_describe();
  static struct run_spec spec;
  int status = spec_from_words(&spec, (struct cli_words){arguments, count});
  if (status != CLI_RUN)
    return status;
  say_left_out();
  struct error error = {0};
  status = open_workload(&spec, &error) == 0 ? make_run(&spec, &error) : CLI_FAILED;
  if (status != CLI_DONE)
    fprintf(stderr, "heaptape-replay: %s\n", error.text);
  return status;
}

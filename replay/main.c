/* SPDX-License-Identifier: MIT */
/* heaptape-replay: one run of one workload on one allocator. Makes the helper runs, and writes the output. */
#include "core/workload/workload_read.h"
#include "replay/engine/engine.h"
#include "replay/engine/recorded_clock.h"
#include "replay/parent/options.h"
#include "replay/parent/report.h"
#include "replay/parent/run.h"
#include "replay/passes/blame/blame_places.h"
#include "replay/passes/instructions.h"
#include "replay/passes/pmu_json.h"
#include "replay/passes/window_edges.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, CALIBRATED_OPS = 4 << 20 };

/* For the blame pass: opens the origins file, and resolves the positions of --at. */
static int open_origins(struct options *options, const struct workload_header *workload, struct error *error) {
  struct run_request *request = &options->request;
  if (origin_names_open(&options->origins, request->origins, workload, error) != 0)
    return -1;
  request->origin_names = options->origins.json;
  request->blame.origins_fd = options->origins.fd;
  const struct blame_places places = {options->at, options->at_count, request->path};
  return blame_places_resolve(&request->blame, &places, workload, json_object_get(options->origins.json, "marks"),
                              error);
}

/* Opens and checks the workload, and fills in the request's fields that depend on it. */
static int open_workload(struct options *options, struct error *error) {
  struct run_request *request = &options->request;
  bool standard_input = strcmp(request->path, "-") == 0;
  if (standard_input)
    request->path = "standard input";
  request->workload_fd = standard_input ? STDIN_FILENO : open(request->path, O_RDONLY);
  if (request->workload_fd < 0)
    return error_errno(error, request->path, "can't open");
  struct workload workload;
  if (workload_open_fd(&workload, request->workload_fd, request->path, error) != 0)
    return -1;
  request->threads = workload.header.threads;
  request->ops = workload.header.ops;
  request->slots = workload.header.slots;
  int status = workload_check_schedule(&workload, error);
  if (status == 0 && request->pass == PASS_BLAME)
    status = open_origins(options, &workload.header, error);
  if (status == 0 && options->windows) {
    static struct window_edges edges;
    status = window_edges_read(&edges, options->windows, workload.header.ops, error);
    request->edges = &edges;
  }
  workload_close(&workload);
  return status;
}

/* Returns the same request, quiet and on the engine's own allocator. */
static struct run_request without_allocator(const struct run_request *request) {
  struct run_request only = *request;
  only.preloads = NULL;
  only.settings = NULL;
  only.progress_fd = -1;
  return only;
}

static int measure_baseline(const struct run_request *request, struct baseline *baseline, struct error *error) {
  struct run_request only = without_allocator(request);
  only.pass = request->pass == PASS_BLAME ? PASS_BLAME : PASS_MEMORY; /* its tables count in VmSize */
  only.baseline_only = true;
  only.null_allocator = false;
  struct run run;
  int status = run_engine(&run, &only, error);
  if (status == 0)
    *baseline = (struct baseline){run.result->rss_anon_start_bytes, run.result->vm_size_start_bytes};
  run_free(&run);
  return status;
}

/* Measures the engine's own cost on this workload: the bare pass of its beginning with the null allocator. Orders by
   turns have no prefix at which to stop, and waits are left out anyway, so the window order is used instead; for the
   paced order as well. Returns 0, or -1 with error. */
static int measure_engine(const struct run_request *request, double *ns_per_op, json_t **counters_per_op,
                          struct error *error) {
  struct run_request only = without_allocator(request);
  only.pass = PASS_BARE;
  only.order = request->order == ORDER_CAUSAL ? ORDER_CAUSAL : ORDER_WINDOW;
  only.null_allocator = true;
  only.op_limit = CALIBRATED_OPS;
  struct run run;
  int status = run_engine(&run, &only, error);
  if (status == 0)
    *counters_per_op = report_pmu_per_op(run.result);
  if (status == 0)
    *ns_per_op = run.result->ops ? (double)run.result->cpu_ns / (double)run.result->ops : 0;
  run_free(&run);
  return status;
}

static int write_json(json_t *json, const char *path, struct error *error) {
  FILE *file = path ? fopen(path, "w") : stdout;
  if (!file)
    return error_errno(error, path, "can't create");
  int failed = !json || json_dumpf(json, file, JSON_COMPACT | JSON_REAL_PRECISION(12)) != 0;
  failed |= fputc('\n', file) == EOF || fflush(file) != 0;
  if (path)
    failed |= fclose(file) != 0;
  return failed ? error_set(error, path ? path : "standard output", "can't be written") : 0;
}

static int make_run(struct options *options, struct error *error) {
  const struct run_request *request = &options->request;
  struct baseline baseline = options->given;
  if (pass_samples_memory(request->pass) && (!options->have_baseline || !options->have_vm_baseline)) {
    if (measure_baseline(request, &baseline, error) != 0)
      return -1;
    if (options->have_baseline)
      baseline.rss_anon_bytes = options->given.rss_anon_bytes;
    if (options->have_vm_baseline)
      baseline.vm_size_bytes = options->given.vm_size_bytes;
  }
  double engine_ns = -1;
  bool timed = request->pass == PASS_TIME || request->pass == PASS_BARE;
  json_t *engine_counters = NULL;
  if (options->engine_cycles_per_op < 0 && timed && measure_engine(request, &engine_ns, &engine_counters, error) != 0)
    return -1;
  struct run run;
  int status = run_engine(&run, request, error);
  if (status == 0) {
    double engine_cycles = engine_ns < 0 ? options->engine_cycles_per_op : engine_ns * run_cycles_hz() / 1e9;
    json_t *json = report_run(&run, request, &baseline, engine_cycles);
    if (engine_counters && request->pass == PASS_BARE)
      json_object_set(json, "engine_counters_per_op", engine_counters);
    status = write_json(json, options->output, error);
    json_decref(json);
  }
  json_decref(engine_counters);
  run_free(&run);
  return status;
}

static int print_baseline(struct options *options, struct error *error) {
  struct baseline baseline;
  if (measure_baseline(&options->request, &baseline, error) != 0)
    return -1;
  json_t *json = json_pack("{s:I, s:I}", "rss_anon_bytes", (json_int_t)baseline.rss_anon_bytes, "vm_size_bytes",
                           (json_int_t)baseline.vm_size_bytes);
  int status = write_json(json, options->output, error);
  json_decref(json);
  return status;
}

int main(int count, char **arguments) {
  int result_fd, workload_fd;
  instructions_loaded();
  recorded_clock_setup();
  /* The engine's process: nothing before this line, and nothing below engine_main, calls malloc. */
  if (count == 2 && sscanf(arguments[1], "--engine=%d,%d", &result_fd, &workload_fd) == 2)
    return engine_main(result_fd, workload_fd);
  static struct options options;
  enum options_verdict verdict = options_parse(count, arguments, &options);
  if (verdict == OPTIONS_HELP)
    return fputs(options_usage, stdout) < 0 ? EXIT_FAILED : 0;
  if (verdict == OPTIONS_WRONG) {
    fprintf(stderr, "heaptape-replay: %s\n%s", options.wrong, options_usage);
    return EXIT_USAGE;
  }
  struct error error = {""};
  int status = open_workload(&options, &error);
  if (status == 0)
    status = options.baseline ? print_baseline(&options, &error) : make_run(&options, &error);
  origin_names_close(&options.origins);
  if (status != 0)
    fprintf(stderr, "heaptape-replay: %s\n", error.text);
  return status == 0 ? 0 : EXIT_FAILED;
}

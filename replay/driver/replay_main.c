/* heaptape-replay: one run of one workload on one allocator. Options, the helper runs, output. */
#include "replay/driver/report.h"
#include "replay/driver/report_pmu.h"
#include "replay/driver/run.h"
#include "replay/engine/engine.h"
#include "replay/order/recorded_clock.h"
#include "replay/state/touch.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  EXIT_FAILED = 1,
  EXIT_USAGE = 2,
  ARGUMENTS_LIMIT = 64, /* --preload and --env each */
  CALIBRATED_OPS = 4 << 20,
};

/* Positions. Measured with a larson-shaped workload of two threads: smaller windows cost waits, larger ones change
   nothing but let threads drift apart (README.md). */
enum { DEFAULT_WINDOW = 4096 };

static const char USAGE[] =
    "usage: heaptape-replay --pass time|memory|bare|verify|instructions|sharing\n"
    "                       [--order recorded|causal|window[=N]|paced[=SPEED]|random=SEED]\n"
    "                       [--touch recorded[=N]|lines[=N]|first|pages|all|none] [--preload LIB]... [--env "
    "NAME=VALUE]... [--null] [--as-malloc] [--threads-to-cores]\n"
    "                       [--clock recorded|real] [--disturb LINES] [--counter heaptape|callgrind]\n"
    "                       [--baseline-rss-anon-bytes N] [--baseline-vm-size-bytes N] [--engine-cycles-per-op X]\n"
    "                       [--aslr] [--op-limit N] [--progress-fd FD] [-o RUN.json] F.work\n"
    "       heaptape-replay --baseline F.work\n";

struct options {
  struct run_request request;
  char *preloads[ARGUMENTS_LIMIT + 1], *settings[ARGUMENTS_LIMIT + 1];
  unsigned preload_count, setting_count;
  bool have_pass, have_order, baseline, have_baseline, have_vm_baseline;
  struct baseline given;
  double engine_cycles_per_op; /* < 0: to be measured */
  const char *output;
  char result_fds[64]; /* --engine */
};

static int usage_error(const char *what, const char *value) {
  fprintf(stderr, "heaptape-replay: %s%s%s\n%s", what, value ? ": " : "", value ? value : "", USAGE);
  return EXIT_USAGE;
}

static int failure(const struct trace_error *error) {
  fprintf(stderr, "heaptape-replay: %s\n", error->text);
  return EXIT_FAILED;
}

static bool parse_number(const char *text, uint64_t *value) {
  char *end;
  errno = 0;
  *value = strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

static bool parse_pass(const char *text, struct options *options) {
  for (int pass = PASS_TIME; pass <= PASS_SHARING; pass++) {
    if (strcmp(text, pass_name(pass)) == 0) {
      options->request.pass = pass;
      return options->have_pass = true;
    }
  }
  return false;
}

static bool parse_order(const char *text, struct options *options) {
  options->have_order = true;
  if (strncmp(text, "window=", 7) == 0) {
    options->request.order = ORDER_WINDOW;
    if (!parse_number(text + 7, &options->request.window) || options->request.window == 0)
      return false;
    if (options->request.window < WORKLOAD_MARK_INTERVAL) /* what the engine can tell apart; and what the result says */
      options->request.window = WORKLOAD_MARK_INTERVAL;
    return true;
  }
  if (strncmp(text, "random=", 7) == 0) {
    options->request.order = ORDER_RANDOM;
    return parse_number(text + 7, &options->request.seed);
  }
  if (strncmp(text, "paced=", 6) == 0) {
    char *end;
    options->request.order = ORDER_PACED;
    options->request.speed = strtod(text + 6, &end);
    return end != text + 6 && *end == '\0' && options->request.speed >= 1e-6 && options->request.speed <= 1e6;
  }
  for (int order = ORDER_RECORDED; order <= ORDER_PACED; order++) {
    if (strcmp(text, order_name(order)) == 0) {
      options->request.order = order;
      return true;
    }
  }
  return false;
}

static bool parse_counter(const char *text, struct options *options) {
  for (int by = COUNTED_BY_HEAPTAPE; by <= COUNTED_BY_CALLGRIND; by++) {
    if (strcmp(text, counted_by_name(by)) == 0) {
      options->request.counted_by = by;
      return true;
    }
  }
  return false;
}

/* recorded=N and lines=N set how many bytes of an object of unknown truth are written. */
static bool parse_touch(const char *text, struct options *options) {
  size_t name = strcspn(text, "=");
  for (int touch = TOUCH_RECORDED; touch <= TOUCH_NONE; touch++) {
    if (strlen(touch_name(touch)) != name || strncmp(text, touch_name(touch), name) != 0)
      continue;
    options->request.touch = touch;
    return text[name] == '\0' ||
           (touch <= TOUCH_LINES && parse_number(text + name + 1, &options->request.touch_bound_bytes));
  }
  return false;
}

static bool add_argument(char **arguments, unsigned *count, char *argument) {
  if (*count == ARGUMENTS_LIMIT)
    return false;
  arguments[(*count)++] = argument;
  return true;
}

enum option_code {
  OPTION_PASS = 256,
  OPTION_ORDER,
  OPTION_TOUCH,
  OPTION_PRELOAD,
  OPTION_ENV,
  OPTION_NULL,
  OPTION_BASELINE,
  OPTION_BASELINE_RSS,
  OPTION_BASELINE_VM,
  OPTION_ENGINE_CYCLES,
  OPTION_PROGRESS,
  OPTION_ASLR,
  OPTION_OP_LIMIT,
  OPTION_AS_MALLOC,
  OPTION_TO_CORES,
  OPTION_CLOCK,
  OPTION_DISTURB,
  OPTION_COUNTER,
  OPTION_HELP,
};

static bool take_option(int code, struct options *options) {
  uint64_t number = 0;
  char *end;
  switch (code) {
  case OPTION_PASS:
    return parse_pass(optarg, options);
  case OPTION_ORDER:
    return parse_order(optarg, options);
  case OPTION_TOUCH:
    return parse_touch(optarg, options);
  case OPTION_PRELOAD:
    /* The dynamic linker splits LD_PRELOAD at both, and knows no escape. */
    return *optarg && !strpbrk(optarg, ": ") && add_argument(options->preloads, &options->preload_count, optarg);
  case OPTION_ENV:
    return strchr(optarg, '=') > optarg && add_argument(options->settings, &options->setting_count, optarg);
  case OPTION_NULL:
    return options->request.null_allocator = true;
  case OPTION_ASLR:
    return options->request.aslr = true;
  case OPTION_AS_MALLOC:
    return options->request.as_malloc = true;
  case OPTION_TO_CORES:
    return options->request.threads_to_cores = true;
  case OPTION_CLOCK:
    options->request.real_clock = strcmp(optarg, "real") == 0;
    return options->request.real_clock || strcmp(optarg, "recorded") == 0;
  case OPTION_DISTURB:
    return parse_number(optarg, &options->request.disturb_lines) && options->request.disturb_lines <= 1 << 20;
  case OPTION_COUNTER:
    return parse_counter(optarg, options);
  case OPTION_OP_LIMIT:
    return parse_number(optarg, &options->request.op_limit) && options->request.op_limit > 0;
  case OPTION_BASELINE:
    return options->baseline = true;
  case OPTION_BASELINE_RSS:
    options->have_baseline = true;
    return parse_number(optarg, &options->given.rss_anon_bytes);
  case OPTION_BASELINE_VM:
    options->have_vm_baseline = true;
    return parse_number(optarg, &options->given.vm_size_bytes);
  case OPTION_ENGINE_CYCLES:
    options->engine_cycles_per_op = strtod(optarg, &end);
    return end != optarg && *end == '\0' && options->engine_cycles_per_op >= 0;
  case OPTION_PROGRESS:
    options->request.progress_fd = parse_number(optarg, &number) && number < 1 << 20 ? (int)number : -1;
    return options->request.progress_fd >= 0;
  case 'o':
    options->output = optarg;
    return true;
  default:
    return false;
  }
}

/* Returns 0, or the status to exit with. */
static int parse(int count, char **arguments, struct options *options) {
  static const struct option known[] = {
      {"pass", required_argument, NULL, OPTION_PASS},
      {"order", required_argument, NULL, OPTION_ORDER},
      {"touch", required_argument, NULL, OPTION_TOUCH},
      {"preload", required_argument, NULL, OPTION_PRELOAD},
      {"env", required_argument, NULL, OPTION_ENV},
      {"null", no_argument, NULL, OPTION_NULL},
      {"baseline", no_argument, NULL, OPTION_BASELINE},
      {"baseline-rss-anon-bytes", required_argument, NULL, OPTION_BASELINE_RSS},
      {"baseline-vm-size-bytes", required_argument, NULL, OPTION_BASELINE_VM},
      {"engine-cycles-per-op", required_argument, NULL, OPTION_ENGINE_CYCLES},
      {"op-limit", required_argument, NULL, OPTION_OP_LIMIT},
      {"aslr", no_argument, NULL, OPTION_ASLR},
      {"as-malloc", no_argument, NULL, OPTION_AS_MALLOC},
      {"threads-to-cores", no_argument, NULL, OPTION_TO_CORES},
      {"clock", required_argument, NULL, OPTION_CLOCK},
      {"disturb", required_argument, NULL, OPTION_DISTURB},
      {"counter", required_argument, NULL, OPTION_COUNTER},
      {"progress-fd", required_argument, NULL, OPTION_PROGRESS},
      {"help", no_argument, NULL, OPTION_HELP},
      {0},
  };
  int code, index = 0;
  while ((code = getopt_long(count, arguments, "o:", known, &index)) != -1) {
    if (code == OPTION_HELP) {
      fputs(USAGE, stdout);
      exit(0);
    }
    if (code == '?')
      return usage_error("wrong option", NULL);
    if (!take_option(code, options))
      return usage_error(code == 'o' ? "-o" : known[index].name, optarg);
  }
  if (optind != count - 1)
    return usage_error("one workload file, please", NULL);
  options->request.path = arguments[optind];
  if (!options->have_pass && !options->baseline)
    return usage_error("--pass is missing", NULL);
  if (options->request.null_allocator && options->preload_count > 0)
    return usage_error("--null and --preload exclude each other", NULL);
  if (options->request.null_allocator && options->request.pass == PASS_VERIFY)
    return usage_error("--null has no memory to verify", NULL);
  if (!options->have_order)
    options->request.order =
        options->request.pass == PASS_MEMORY || options->request.pass == PASS_SHARING ? ORDER_RECORDED : ORDER_WINDOW;
  if (options->request.op_limit > 0 && order_by_turns(options->request.order))
    return usage_error("--op-limit: an order by turns has no beginning to stop at; use another one", NULL);
  if (options->request.as_malloc && options->request.pass == PASS_VERIFY)
    return usage_error("--as-malloc: then there are no promises of other entry points to verify", NULL);
  return 0;
}

/* Opens and checks the workload; what the request needs to know of it is filled in. */
static int open_workload(struct run_request *request, struct trace_error *error) {
  bool standard_input = strcmp(request->path, "-") == 0;
  if (standard_input)
    request->path = "standard input";
  request->workload_fd = standard_input ? STDIN_FILENO : open(request->path, O_RDONLY);
  if (request->workload_fd < 0)
    return trace_error_errno(error, request->path, "can't open");
  struct workload_map map;
  if (workload_map(&map, request->workload_fd, request->path, error) != 0)
    return -1;
  request->threads = map.header.threads;
  request->ops = map.header.ops;
  int status = workload_check_schedule(&map, error);
  workload_unmap(&map);
  return status;
}

/* The same request, quiet and on the engine's own allocator. */
static struct run_request without_allocator(const struct run_request *request) {
  struct run_request only = *request;
  only.preloads = NULL;
  only.settings = NULL;
  only.progress_fd = -1;
  return only;
}

static int measure_baseline(const struct run_request *request, struct baseline *baseline, struct trace_error *error) {
  struct run_request only = without_allocator(request);
  only.pass = PASS_MEMORY;
  only.baseline_only = true;
  only.null_allocator = false;
  struct run run;
  int status = run_engine(&run, &only, error);
  if (status == 0)
    *baseline = (struct baseline){run.result->rss_anon_start_bytes, run.result->vm_size_start_bytes};
  run_free(&run);
  return status;
}

/* What the engine costs by itself on this workload: the bare pass of its beginning with the null allocator. Orders by
   turns have no prefix to stop at, and waits are left out anyway: the window stands in, and for the pace as well.
   Returns 0, or -1 with error. */
static int measure_engine(const struct run_request *request, double *cycles_per_op, json_t **counters_per_op,
                          struct trace_error *error) {
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
    *cycles_per_op = run.result->ops ? report_stream_cycles(&run) / (double)run.result->ops : 0;
  run_free(&run);
  return status;
}

static int write_json(json_t *json, const char *path, struct trace_error *error) {
  FILE *file = path ? fopen(path, "w") : stdout;
  if (!file)
    return trace_error_errno(error, path, "can't create");
  int failed = !json || json_dumpf(json, file, JSON_COMPACT | JSON_REAL_PRECISION(12)) != 0;
  failed |= fputc('\n', file) == EOF || fflush(file) != 0;
  if (path)
    failed |= fclose(file) != 0;
  return failed ? trace_error_set(error, path ? path : "standard output", "can't be written") : 0;
}

static int make_run(struct options *options, struct trace_error *error) {
  const struct run_request *request = &options->request;
  struct baseline baseline = options->given;
  if (request->pass == PASS_MEMORY && (!options->have_baseline || !options->have_vm_baseline)) {
    if (measure_baseline(request, &baseline, error) != 0)
      return -1;
    if (options->have_baseline)
      baseline.rss_anon_bytes = options->given.rss_anon_bytes;
    if (options->have_vm_baseline)
      baseline.vm_size_bytes = options->given.vm_size_bytes;
  }
  double engine_cycles = options->engine_cycles_per_op;
  bool timed = request->pass == PASS_TIME || request->pass == PASS_BARE;
  json_t *engine_counters = NULL;
  if (engine_cycles < 0 && timed && measure_engine(request, &engine_cycles, &engine_counters, error) != 0)
    return -1;
  struct run run;
  int status = run_engine(&run, request, error);
  if (status == 0) {
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

static int print_baseline(struct options *options, struct trace_error *error) {
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
  recorded_clock_setup();
  /* The engine's process: nothing before this line, and nothing below engine_main, calls malloc. */
  if (count == 2 && sscanf(arguments[1], "--engine=%d,%d", &result_fd, &workload_fd) == 2)
    return engine_main(result_fd, workload_fd);
  static struct options options = {
      .request = {.window = DEFAULT_WINDOW, .speed = 1, .touch_bound_bytes = TOUCH_BOUND_BYTES, .progress_fd = -1},
      .engine_cycles_per_op = -1};
  int status = parse(count, arguments, &options);
  if (status != 0)
    return status;
  options.request.preloads = options.preloads;
  options.request.settings = options.settings;
  struct trace_error error = {""};
  if (open_workload(&options.request, &error) != 0)
    return failure(&error);
  status = options.baseline ? print_baseline(&options, &error) : make_run(&options, &error);
  return status == 0 ? 0 : failure(&error);
}

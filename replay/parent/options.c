/* SPDX-License-Identifier: MIT */
#include "replay/parent/options.h"

#include "core/workload/workload.h"
#include "replay/calls/touch.h"
#include "replay/parent/names.h"
#include "replay/passes/blame/blame_places.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Positions. Measured with a larson-shaped workload of two threads: smaller windows cost waits, larger ones only let
   threads drift apart (docs/measurements/replay.md). */
enum { DEFAULT_WINDOW = 4096, MISSES_LINE_BYTES = 64, MISSES_LEVEL_LIMIT = 9, BLAME_DEFAULT_POSITIONS = 64 };

const char options_usage[] =
    "usage: heaptape-replay --pass time|memory|bare|verify|instructions|sharing|misses|blame|contention\n"
    "                       [--order recorded|causal|window[=N]|paced[=SPEED]|random=SEED]\n"
    "                       [--touch recorded[=N]|lines[=N]|first|pages|all|none] [--preload LIB]... [--env NAME=VALUE]... [--null] [--as-malloc] [--threads-to-cores]\n"
    "                       [--clock recorded|real] [--disturb LINES] [--windows FILE]\n"
    "                       [--accesses F.accesses] [--caches BYTES:WAYS,...] [--tlbs ENTRIES:WAYS,...]\n"
    "                       [--origins W.origins] [--at POSITION|peak|live-peak|end|mark=TEXT]... [--positions N]\n"
    "                       [--baseline-rss-anon-bytes N] [--baseline-vm-size-bytes N] [--engine-cycles-per-op X]\n"
    "                       [--aslr] [--op-limit N] [--progress-fd FD] [-o RUN.json] F.work\n"
    "       heaptape-replay --baseline F.work\n";

static bool parse_number(const char *text, uint64_t *value) {
  char *end;
  errno = 0;
  *value = strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

static bool parse_pass(const char *text, struct options *options) {
  for (int pass = PASS_TIME; pass < PASSES; pass++) {
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
    if (options->request.window <
        WORKLOAD_MARK_INTERVAL) /* positions are known to that many ops; the result has the raised figure */
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

/* recorded=N and lines=N set how many bytes are written of an object whose touched OS pages are not recorded. */
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

/* "CAPACITY:WAYS,...", of blocks of that size. The tool checks the same (observe/valgrind/simulate/simulate.c), but its
   message would not be one line. */
static bool are_levels(const char *text, uint64_t block_bytes) {
  for (unsigned count = 1; count <= MISSES_LEVEL_LIMIT; count++) {
    char *end;
    errno = 0;
    uint64_t capacity = *text >= '1' && *text <= '9' ? strtoull(text, &end, 10) : 0, blocks = capacity / block_bytes;
    uint64_t ways = capacity > 0 && *end == ':' && end[1] >= '1' && end[1] <= '9' ? strtoull(end + 1, &end, 10) : 0;
    if (errno != 0 || capacity > 1ull << 40 || capacity % block_bytes != 0 || ways == 0 || ways > 65536 ||
        blocks % ways != 0 || __builtin_popcountll(blocks / ways) != 1)
      return false;
    if (*end != ',')
      return *end == '\0';
    text = end + 1;
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
  OPTION_WINDOWS,
  OPTION_ACCESSES,
  OPTION_CACHES,
  OPTION_TLBS,
  OPTION_ORIGINS,
  OPTION_AT,
  OPTION_POSITIONS,
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
    /* The dynamic linker splits LD_PRELOAD at both characters, and has no escape for them. */
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
  case OPTION_WINDOWS:
    options->windows = optarg;
    return *optarg;
  case OPTION_ACCESSES:
    options->request.accesses = optarg;
    return *optarg && strlen(optarg) < PATH_MAX;
  case OPTION_CACHES:
    options->request.caches = optarg;
    return are_levels(optarg, MISSES_LINE_BYTES);
  case OPTION_TLBS:
    options->request.tlbs = optarg;
    return are_levels(optarg, 1);
  case OPTION_ORIGINS:
    options->request.origins = optarg;
    return *optarg && strlen(optarg) < PATH_MAX;
  case OPTION_AT:
    if (options->at_count == BLAME_ASKED_LIMIT)
      return false;
    options->at[options->at_count++] = optarg;
    return blame_place_is_legal(optarg);
  case OPTION_POSITIONS:
    options->have_positions = true;
    options->request.blame.even =
        parse_number(optarg, &number) && number <= BLAME_EVEN_LIMIT ? (uint32_t)number : UINT32_MAX;
    return options->request.blame.even <= BLAME_EVEN_LIMIT;
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

static enum options_verdict wrong(struct options *options, const char *what, const char *value) {
  snprintf(options->wrong, sizeof options->wrong, "%s%s%s", what, value ? ": " : "", value ? value : "");
  return OPTIONS_WRONG;
}

static enum options_verdict check_misses(struct options *options) {
  const struct run_request *request = &options->request;
  if (request->pass != PASS_MISSES)
    return request->accesses || request->caches || request->tlbs
               ? wrong(options, "--accesses, --caches and --tlbs are for the misses pass", NULL)
               : OPTIONS_RUN;
  if (!request->accesses)
    return wrong(options, "the misses pass needs --accesses", NULL);
  if (request->order != ORDER_RECORDED)
    return wrong(options, "the misses pass supports only the recorded order", NULL);
  if (request->as_malloc)
    return wrong(options, "--as-malloc leaves out accesses that the misses pass counts", NULL);
  return OPTIONS_RUN;
}

static enum options_verdict check_blame(struct options *options) {
  const struct run_request *request = &options->request;
  if (request->pass != PASS_BLAME)
    return request->origins || options->at_count > 0 || options->have_positions
               ? wrong(options, "--origins, --at and --positions are for the blame pass", NULL)
               : OPTIONS_RUN;
  return request->order != ORDER_RECORDED ? wrong(options, "the blame pass supports only the recorded order", NULL)
                                          : OPTIONS_RUN;
}

/* Counting between positions needs an order in which each op has its own. */
static enum options_verdict check_windows(struct options *options) {
  const struct run_request *request = &options->request;
  if (!options->windows)
    return OPTIONS_RUN;
  if (!pass_counts_by_windows(request->pass))
    return wrong(options, "--windows is for the passes instructions and misses", NULL);
  if (request->order != ORDER_RECORDED)
    return wrong(options, "--windows needs the recorded order", NULL);
  return OPTIONS_RUN;
}

/* Checks which options exclude or need one another. */
static enum options_verdict check_together(struct options *options) {
  struct run_request *request = &options->request;
  if (!options->have_pass && !options->baseline)
    return wrong(options, "--pass is missing", NULL);
  if (request->null_allocator && options->preload_count > 0)
    return wrong(options, "--null and --preload exclude each other", NULL);
  if (request->null_allocator && request->pass == PASS_VERIFY)
    return wrong(options, "--null has no memory to verify", NULL);
  if (!options->have_order)
    request->order = request->pass == PASS_MEMORY || request->pass == PASS_SHARING || request->pass == PASS_MISSES ||
                             request->pass == PASS_BLAME || options->windows
                         ? ORDER_RECORDED
                         : ORDER_WINDOW;
  if (request->op_limit > 0 && order_by_turns(request->order))
    return wrong(options, "--op-limit does not work under orders in which one thread runs at a time", NULL);
  if (request->as_malloc && request->pass == PASS_VERIFY)
    return wrong(options, "--as-malloc leaves no other entry points to verify", NULL);
  if (check_blame(options) == OPTIONS_WRONG || check_misses(options) == OPTIONS_WRONG)
    return OPTIONS_WRONG;
  return check_windows(options);
}

enum options_verdict options_parse(int count, char **arguments, struct options *options) {
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
      {"windows", required_argument, NULL, OPTION_WINDOWS},
      {"accesses", required_argument, NULL, OPTION_ACCESSES},
      {"caches", required_argument, NULL, OPTION_CACHES},
      {"tlbs", required_argument, NULL, OPTION_TLBS},
      {"origins", required_argument, NULL, OPTION_ORIGINS},
      {"at", required_argument, NULL, OPTION_AT},
      {"positions", required_argument, NULL, OPTION_POSITIONS},
      {"progress-fd", required_argument, NULL, OPTION_PROGRESS},
      {"help", no_argument, NULL, OPTION_HELP},
      {0},
  };
  *options = (struct options){.request = {.window = DEFAULT_WINDOW,
                                          .speed = 1,
                                          .touch_bound_bytes = TOUCH_BOUND_BYTES,
                                          .progress_fd = -1,
                                          .blame = {.origins_fd = -1, .even = BLAME_DEFAULT_POSITIONS}},
                              .engine_cycles_per_op = -1,
                              .origins = {.fd = -1}};
  int code, index = 0;
  while ((code = getopt_long(count, arguments, "o:", known, &index)) != -1) {
    if (code == OPTION_HELP)
      return OPTIONS_HELP;
    if (code == '?')
      return wrong(options, "wrong option", NULL);
    if (!take_option(code, options))
      return wrong(options, code == 'o' ? "-o" : known[index].name, optarg);
  }
  if (optind != count - 1)
    return wrong(options, "give one workload file", NULL);
  options->request.path = arguments[optind];
  options->request.preloads = options->preloads;
  options->request.settings = options->settings;
  return check_together(options);
}

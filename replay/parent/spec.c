/* SPDX-License-Identifier: MIT */
#include "replay/parent/spec.h"

#include "core/base/text.h"
#include "core/base/touched.h"
#include "core/system/allocator_settings.h"
#include "core/workload/workload.h"
#include "replay/engine/pass.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Positions. Measured with a larson-shaped workload of two threads: smaller windows cost waits, larger ones only let
   threads drift apart. */
enum { DEFAULT_WINDOW = 4096, MOST_POSITIONS = 250 };

const char *const order_names[ORDERS] = {"recorded", "causal", "window", "paced", "random"};
const char *const touch_names[TOUCH_POLICIES] = {"recorded", "spread", "least", "lines",
                                                 "first",    "pages",  "all",   "none"};

static const struct run_spec DEFAULTS = {.window = DEFAULT_WINDOW,
                                         .speed = 1,
                                         .touch_bound_bytes = TOUCH_BOUND_BYTES,
                                         .progress_fd = -1,
                                         .baseline = {UINT64_MAX, UINT64_MAX},
                                         .engine_cycles_per_op = -1,
                                         .positions = UINT64_MAX};

static bool parse_number(const char *text, uint64_t *value) {
  char *end;
  errno = 0;
  *value = strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

static const char *take_pass(void *field, const char *value) {
  const struct pass **pass = field;
  *pass = pass_named(value);
  return *pass ? NULL : "no such pass";
}

/* Of the whole spec, as it has a parameter. */
static const char *take_order(void *field, const char *value) {
  static const char wrong[] = "is none of recorded, causal, window[=N], paced[=SPEED], random=SEED";
  struct run_spec *spec = field;
  size_t name = strcspn(value, "=");
  const char *parameter = value[name] ? value + name + 1 : NULL;
  char *end;
  spec->order_given = true;
  spec->order = 0;
  while (spec->order < ORDERS &&
         (strlen(order_names[spec->order]) != name || strncmp(order_names[spec->order], value, name) != 0))
    spec->order++;
  switch (spec->order) {
  case ORDER_RECORDED:
  case ORDER_CAUSAL:
    return parameter ? wrong : NULL;
  case ORDER_WINDOW:
    if (parameter && (!parse_number(parameter, &spec->window) || spec->window == 0))
      return wrong;
    if (spec->window <
        WORKLOAD_MARK_INTERVAL) /* positions are known to that many ops; the result has the raised figure */
      spec->window = WORKLOAD_MARK_INTERVAL;
    return NULL;
  case ORDER_PACED:
    if (!parameter)
      return NULL;
    spec->speed = strtod(parameter, &end);
    return end != parameter && *end == '\0' && spec->speed >= 1e-6 && spec->speed <= 1e6 ? NULL : wrong;
  case ORDER_RANDOM:
    return parameter && parse_number(parameter, &spec->seed) ? NULL : wrong;
  default:
    return wrong;
  }
}

/* Of the whole spec. recorded=N and lines=N set how many bytes are written of an object whose touched OS pages are not
   recorded. */
static const char *take_touch(void *field, const char *value) {
  struct run_spec *spec = field;
  size_t name = strcspn(value, "=");
  for (enum touch_policy touch = TOUCH_RECORDED; touch < TOUCH_POLICIES; touch++) {
    if (strlen(touch_names[touch]) != name || strncmp(value, touch_names[touch], name) != 0)
      continue;
    spec->touch = touch;
    if (value[name] == '\0' || (touch <= TOUCH_LINES && parse_number(value + name + 1, &spec->touch_bound_bytes)))
      return NULL;
  }
  return "is none of recorded[=N], lines[=N], first, pages, all, none";
}

static const char *add_word(struct spec_words *words, const char *value) {
  if (words->count == SPEC_WORDS)
    return "too many";
  words->texts[words->count++] = value;
  return NULL;
}

static const char *take_preload(void *field, const char *value) {
  return *value ? add_word(field, value) : "a library's path is not empty";
}

static const char *take_folder(void *field, const char *value) {
  return *value == '/' && !strpbrk(value, ":;") ? add_word(field, value) : "is not an absolute path without : and ;";
}

static const char *take_setting(void *field, const char *value) {
  if (strncmp(value, "LD_PRELOAD=", strlen("LD_PRELOAD=")) == 0)
    return "is for --preload";
  return strchr(value, '=') > value ? add_word(field, value) : "is not NAME=VALUE";
}

static const char *take_position(void *field, const char *value) {
  uint64_t position;
  bool legal = strcmp(value, "peak") == 0 || strcmp(value, "live-peak") == 0 || strcmp(value, "end") == 0 ||
               (strncmp(value, "mark=", 5) == 0 && value[5]) || parse_number(value, &position);
  return legal ? add_word(field, value) : "is none of POSITION, peak, live-peak, end, mark=TEXT";
}

static const char *take_clock(void *field, const char *value) {
  bool *real_clock = field;
  *real_clock = strcmp(value, "real") == 0;
  return *real_clock || strcmp(value, "recorded") == 0 ? NULL : "is none of recorded, real";
}

static const char *take_lines(void *field, const char *value) {
  return parse_number(value, field) && *(uint64_t *)field <= 1 << 20 ? NULL : "is not a number up to 1048576";
}

static const char *take_positions(void *field, const char *value) {
  return parse_number(value, field) && *(uint64_t *)field <= MOST_POSITIONS ? NULL : "is not a number up to 250";
}

static const char *take_fd(void *field, const char *value) {
  uint64_t fd;
  if (!parse_number(value, &fd) || fd >= 1 << 20)
    return "is not a descriptor";
  *(int *)field = (int)fd;
  return NULL;
}

static const char *take_file(void *field, const char *value) {
  *(const char **)field = value;
  return *value && strlen(value) < PATH_MAX ? NULL : "is not a file's path";
}

#define FIELD(name) offsetof(struct run_spec, name)
CLI_PLACE(replay);
static const struct cli_option options[] = {
    {"pass", 0, "PASS", take_pass, FIELD(pass), .help = "what the run measures"},
    {"order", 0, "ORDER", take_order, 0,
     .help = "recorded, causal, window[=N], paced[=SPEED] or random=SEED: which op may run when",
     .fallback = "the pass's"},
    {"touch", 0, "POLICY", take_touch, 0,
     .help = "recorded[=N], lines[=N], first, pages, all or none: what is written to objects", .fallback = "recorded"},
    {"op-limit", 0, "N", cli_count_above_0, FIELD(op_limit), .help = "replays the first N positions, to 64 ops"},
    {"clock", 0, "CLOCK", take_clock, FIELD(real_clock),
     .help = "recorded or real: what moves the clock that the allocator reads", .fallback = "recorded"},
    {"as-malloc", 0, NULL, cli_flag, FIELD(as_malloc), .help = "all calls become malloc and free"},
    {"threads-to-cores", 0, NULL, cli_flag, FIELD(threads_to_cores), .help = "each thread runs on one processor only"},
    {"aslr", 0, NULL, cli_flag, FIELD(aslr), .help = "leaves the randomisation of addresses as it is"},
    {"preload", 0, "LIB", take_preload, FIELD(preloads), .help = "the allocator, or a library that it needs",
     .group = "allocator", .repeats = true},
    {"env", 0, "NAME=VALUE", take_setting, FIELD(settings), .help = "an environment variable of the engine",
     .group = "allocator", .repeats = true},
    {"loader", 0, "FILE", take_file, FIELD(loader),
     .help = "the dynamic linker of another C library, to be replayed on", .group = "allocator"},
    {"libraries", 0, "DIR", take_folder, FIELD(libraries), .help = "a folder of that C library", .group = "allocator",
     .repeats = true},
    {"no-map", 0, NULL, cli_flag, FIELD(no_map), .help = "the memory pass makes no memory map",
     .group = "of some passes"},
    {"null", 0, NULL, cli_flag, FIELD(null_allocator), .help = "an allocator that does nothing", .group = "allocator"},
    {"disturb", 0, "LINES", take_lines, FIELD(disturb_lines),
     .help = "reads that many cache lines before each timed call", .group = "of some passes"},
    {"warm", 0, "ROUNDS", cli_count, FIELD(warm_rounds),
     .help = "replays a workload of one thread that often before it measures", .group = "of some passes"},
    {CLI_ADDED(replay)}, /* of passes alone (pass.h) */
    {"origins", 0, "FILE", take_file, FIELD(origins), .help = "who acquired each object", .group = "of some passes"},
    {"at", 0, "POSITION", take_position, FIELD(at),
     .help = "a position to attribute memory at: a number, peak, live-peak, end or mark=TEXT",
     .group = "of some passes", .repeats = true},
    {"positions", 0, "N", take_positions, FIELD(positions), .help = "as many evenly spaced positions", .fallback = "64",
     .group = "of some passes"},
    {"baseline", 0, NULL, cli_flag, FIELD(baseline_only),
     .help = "prints the engine's memory before the first op, and ends", .group = "measured before"},
    {"baseline-rss-anon-bytes", 0, "N", cli_count, FIELD(baseline.rss_anon_bytes),
     .help = "its RssAnon, to be subtracted", .group = "measured before"},
    {"baseline-vm-size-bytes", 0, "N", cli_count, FIELD(baseline.vm_size_bytes), .help = "its VmSize",
     .group = "measured before"},
    {"engine-cycles-per-op", 0, "X", cli_decimal, FIELD(engine_cycles_per_op), .help = "the engine's own cost",
     .group = "measured before"},
    {"checked", 0, "STAMP", cli_text, FIELD(checked),
     .help = "what --baseline printed: a workload of that stamp is not proved legal again", .group = "measured before"},
    {"progress-fd", 0, "FD", take_fd, FIELD(progress_fd), .help = "writes lines of ops done and of all ops there",
     .group = "output"},
    {"output", 'o', "FILE", cli_text, FIELD(output), .help = "writes the run there", .fallback = "standard output",
     .group = "output"},
    {0}};

static const struct cli_command command = {
    .called = "heaptape-replay",
    .summary = "one run of one workload on one allocator",
    .synopsis = "--pass PASS [OPTION...] F.work\n--baseline F.work\n--describe",
    .details =
        "Replays a workload on an allocator in a fresh process, measures one thing (a pass), and prints one JSON "
        "object. --describe lists the passes.",
    .options = options,
    .least = 1,
    .most = 1,
};
static const struct cli_command *const commands[] = {&command, NULL};
static const struct cli_program program = {"heaptape-replay", commands};

/* Writes the names of the passes that take the setting: "the pass blame", "the passes misses and instructions". */
static void names_of_takers(unsigned setting, struct text_line *line) {
  unsigned count = 0, left;
  FOR_EACH_PASS(pass)
  count += (pass->takes & setting) != 0;
  text_add(line, "the pass%s", count > 1 ? "es" : "");
  left = count;
  FOR_EACH_PASS(pass)
  if (pass->takes & setting) {
    text_add(line, "%s%s", left == count ? " " : left > 1 ? ", " : " and ", pass->name);
    left--;
  }
}

/* Settings of some passes: which of these were given. */
static const struct {
  unsigned setting;
  const char *options;
} of_some_passes[] = {
    {TAKES_ORIGINS, "--origins, --at and --positions"}, {TAKES_DISTURB, "--disturb"}, {TAKES_WARM, "--warm"}};

static unsigned given(const struct run_spec *spec) {
  return (spec->origins || spec->at.count > 0 || spec->positions != UINT64_MAX ? TAKES_ORIGINS : 0) |
         (spec->disturb_lines > 0 ? TAKES_DISTURB : 0) | (spec->warm_rounds > 0 ? TAKES_WARM : 0);
}

static int wrong_setting(unsigned settings, const char *verb) {
  for (size_t index = 0; index < sizeof of_some_passes / sizeof *of_some_passes; index++) {
    struct text_line names = {.used = 0};
    if (!(of_some_passes[index].setting & settings))
      continue;
    names_of_takers(of_some_passes[index].setting, &names);
    return cli_wrong(program.name, &command, "%s %s %s", of_some_passes[index].options, verb, names.text);
  }
  return CLI_RUN;
}

/* --baseline alone: any pass that samples memory will do. */
static const struct pass *pass_of_baseline(void) {
  const struct pass *pass = pass_after(NULL);
  while (!pass->samples_memory)
    pass = pass_after(pass);
  return pass;
}

/* A pass of whose own options one was given; NULL: there is none. */
static const struct pass *another_with_options(const struct pass *made) {
  FOR_EACH_PASS(pass)
  if (pass != made && pass->own_given && pass->own_given())
    return pass;
  return NULL;
}

static int check(struct run_spec *spec) {
  if (!spec->pass && spec->baseline_only)
    spec->pass = pass_of_baseline();
  const struct pass *pass = spec->pass;
  if (!pass)
    return cli_wrong(program.name, &command, "--pass is missing");
  if (spec->baseline_only && !pass->samples_memory)
    return cli_wrong(program.name, &command, "--baseline: the pass %s does not sample memory", pass->name);
  if (!spec->order_given)
    spec->order = pass->order;
  if (spec->null_allocator && spec->preloads.count > 0)
    return cli_wrong(program.name, &command, "--null and --preload exclude each other");
  if (!spec->loader != (spec->libraries.count == 0))
    return cli_wrong(program.name, &command, "--loader and --libraries need each other");
  if (spec->null_allocator && pass->without_null)
    return cli_wrong(program.name, &command, "%s", pass->without_null);
  if (spec->as_malloc && pass->without_as_malloc)
    return cli_wrong(program.name, &command, "%s", pass->without_as_malloc);
  if (spec->op_limit > 0 && order_by_turns(spec->order))
    return cli_wrong(program.name, &command,
                     "--op-limit does not work under orders in which one thread runs at a time");
  const struct pass *other = another_with_options(pass);
  if (other)
    return cli_wrong(program.name, &command, "%s are for the pass %s", other->own_names, other->name);
  if (given(spec) & ~pass->takes)
    return wrong_setting(given(spec) & ~pass->takes, "are for");
  if (pass->recorded_only && spec->order != ORDER_RECORDED)
    return cli_wrong(program.name, &command, "the %s pass supports only the recorded order", pass->name);
  if (spec->warm_rounds && spec->order == ORDER_PACED)
    return cli_wrong(program.name, &command, "--warm does not work under the paced order");
  const char *missing = pass->own_missing ? pass->own_missing() : NULL;
  if (missing)
    return cli_wrong(program.name, &command, "the %s pass needs %s", pass->name, missing);
  return CLI_RUN;
}

int spec_from_words(struct run_spec *spec, struct cli_words words) {
  *spec = DEFAULTS;
  int status = cli_parse(&program, &command, spec, &words);
  if (status != CLI_RUN)
    return status;
  spec->path = words.at[0];
  return check(spec);
}

static json_t *names_json(const char *const *names, int count) {
  json_t *array = json_array();
  for (int index = 0; index < count; index++)
    json_array_append_new(array, json_string(names[index]));
  return array;
}

static json_t *pass_json(const struct pass *pass) {
  static const char *const repeats[] = {[REPEATED] = "as often as asked", [TWICE] = "twice", [ONCE] = "once"};
  return json_pack("{s:s, s:s, s:s, s:b, s:s, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b}", "name", pass->name,
                   "summary", pass->summary, "order", order_names[pass->order], "recorded_only", pass->recorded_only,
                   "repeats", repeats[pass->repeats], "default", pass->by_default, "exact", pass->exact,
                   "counts_startup", pass->counts_startup, "samples_memory", pass->samples_memory, "own_counters",
                   pass->own_counters, "as_malloc", !pass->without_as_malloc, "disturb",
                   (pass->takes & TAKES_DISTURB) != 0, "accesses", pass->needs_accesses, "origins",
                   (pass->takes & TAKES_ORIGINS) != 0, "warm", (pass->takes & TAKES_WARM) != 0);
}

int spec_describe(void) {
  json_t *passes = json_array();
  FOR_EACH_PASS(pass)
  json_array_append_new(passes, pass_json(pass));
  json_t *variables = json_array();
  for (const char *const *name = allocator_variables; *name; name++)
    json_array_append_new(variables, json_string(*name));
  json_t *links = json_array();
  for (size_t i = 0; i < JEMALLOC_SETTINGS; i++)
    json_array_append_new(links, json_string(jemalloc_settings[i].link));
  json_t *all = json_pack("{s:o, s:o, s:o, s:o, s:o, s:i, s:i}", "allocator_variables", variables, "allocator_links",
                          links, "passes", passes, "orders", names_json(order_names, ORDERS), "touch_policies",
                          names_json(touch_names, TOUCH_POLICIES), "touched_parts_min_bytes", TOUCHED_PARTS_MIN_BYTES,
                          "touched_min_bytes", TOUCHED_MIN_BYTES);
  bool failed = json_dumpf(all, stdout, JSON_INDENT(1)) != 0 || putchar('\n') == EOF || fflush(stdout) != 0;
  json_decref(all);
  return failed ? CLI_FAILED : CLI_DONE;
}

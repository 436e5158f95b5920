/* SPDX-License-Identifier: MIT */
/* The main of every synthetic program: options, then the pattern as a program or as a workload file. */
#include "core/base/json.h"
#include "workloads/synthetic/pattern.h"

#include "core/base/os.h"
#include "core/base/text.h"
#include "workloads/synthetic/script.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint64_t quiet, turn_calls;
static const char *work; /* path of the workload to write; NULL: run as a program */

#define PATTERN(name) extern const struct pattern pattern_##name;
#include "workloads/synthetic/patterns.def"
#undef PATTERN
static const struct pattern *const patterns[] = {
#define PATTERN(name) &pattern_##name,
#include "workloads/synthetic/patterns.def"
#undef PATTERN
};
static const struct pattern *pattern; /* of the program's name */

static const struct option_number common_options[] = {
    {"seed", &pattern_seed, 1, 0, UINT64_MAX, "repeats the run"},
    {"turn", &turn_calls, 64, 1, UINT32_MAX, "with --work: mean calls of a thread before the next thread's turn"},
    {"quiet", &quiet, 0, 0, 1, "1: print nothing"},
    {0},
};

static void print_options(FILE *out, const struct option_number *options) {
  for (; options->name; options++)
    fprintf(out, "  --%s=%" PRIu64 "  %s\n", options->name, *options->value, options->what);
}

static void print_usage(FILE *out, const char *program) {
  fprintf(out, "%s: %s\n", program, pattern->summary);
  print_options(out, pattern->options);
  print_options(out, common_options);
  fprintf(out, "  --work=FILE  write the calls as a workload file instead of making them\n");
}

__attribute__((noreturn)) static void wrong_usage(const char *program, const char *argument, const char *why) {
  fprintf(stderr, "%s: %s: %s\n", program, argument, why);
  print_usage(stderr, program);
  exit(2);
}

/* The option that the argument sets; NULL: none of these. value: the text after the =. */
static const struct option_number *find_option(const struct option_number *options, const char *argument,
                                               const char **value) {
  for (; options->name; options++) {
    size_t length = strlen(options->name);
    if (strncmp(argument, options->name, length) == 0 && argument[length] == '=') {
      *value = argument + length + 1;
      return options;
    }
  }
  return NULL;
}

static void set_option(const char *program, const char *argument) {
  const char *value;
  if (strncmp(argument, "--", 2) != 0)
    wrong_usage(program, argument, "not an option");
  if (strncmp(argument, "--work=", 7) == 0) {
    work = argument + 7;
    return;
  }
  const struct option_number *option = find_option(pattern->options, argument + 2, &value);
  if (!option)
    option = find_option(common_options, argument + 2, &value);
  if (!option)
    wrong_usage(program, argument, "unknown option");
  char *end, why[96];
  errno = 0;
  uint64_t number = strtoull(value, &end, 0);
  if (end == value || *end != '\0' || errno || *value == '-')
    wrong_usage(program, argument, "not a number");
  if (number < option->lowest || number > option->highest) {
    snprintf(why, sizeof why, "must be %" PRIu64 " to %" PRIu64, option->lowest, option->highest);
    wrong_usage(program, argument, why);
  }
  *option->value = number;
}

static json_t *options_json(const struct option_number *options, json_t *object) {
  for (; options->name; options++)
    if (options->value != &quiet && options->value != &turn_calls && options->value != &pattern_seed)
      json_set_count(object, options->name, *options->value);
  return object;
}

/* The command that writes the file again. */
static void command_line(const char *name, struct text_line *line) {
  text_add(line, "%s", name);
  for (const struct option_number *option = pattern->options; option->name; option++)
    text_add(line, " --%s=%" PRIu64, option->name, *option->value);
  text_add(line, " --seed=%" PRIu64 " --turn=%" PRIu64, pattern_seed, turn_calls);
}

static json_t *info_json(const char *name) {
  struct text_line command = {.used = 0};
  command_line(name, &command);
  json_t *about = json_object(), *object = json_object();
  json_object_set_new(about, "name", json_string(name));
  json_object_set_new(about, "summary", json_string(pattern->summary));
  json_set_count(about, "seed", pattern_seed);
  json_set_count(about, "turn", turn_calls);
  json_object_set_new(about, "options", options_json(pattern->options, json_object()));
  json_object_set_new(object, "name", json_string(name));
  json_object_set_new(object, "program", json_string(command.text));
  json_object_set_new(object, "source", json_string("heaptape's synthetic patterns, without a run"));
  json_object_set_new(object, "pattern", about);
  return object;
}

/* Prints with write, as stdio's buffer would be in the recording. */
static void report(uint64_t calls, const char *what, uint64_t start_ns) {
  char line[128];
  double per_second = (double)calls * 1e9 / (double)(os_monotonic_ns() - start_ns);
  int length = snprintf(line, sizeof line, "%" PRIu64 " calls%s, %.3g per second\n", calls, what, per_second);
  if (!quiet && write(STDOUT_FILENO, line, (size_t)length) != length)
    exit(1);
}

static int write_workload(const char *name) {
  struct error error = {0};
  uint64_t start_ns = os_monotonic_ns();
  int64_t ops = script_write(pattern, work, turn_calls, info_json(name), &error);
  if (ops < 0) {
    fprintf(stderr, "%s: %s\n", name, error.text);
    return 1;
  }
  report((uint64_t)ops, " written", start_ns);
  return 0;
}

/* Are both options there, and the first above the second? */
static bool are_reversed(const char *low, const char *high) {
  const char *unused;
  const struct option_number *lowest = find_option(pattern->options, low, &unused);
  const struct option_number *highest = find_option(pattern->options, high, &unused);
  return lowest && highest && *lowest->value > *highest->value;
}

static const struct pattern *choose(const char *name) {
  for (size_t index = 0; index < sizeof patterns / sizeof *patterns; index++)
    if (strcmp(patterns[index]->name, name) == 0)
      return patterns[index];
  return NULL;
}

static void set_standards(const struct option_number *options) {
  for (; options->name; options++)
    *options->value = options->standard;
}

int main(int argc, char **argv) {
  const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
  pattern = choose(name);
  if (!pattern) {
    fprintf(stderr, "%s: no pattern has this name\n", name);
    return 2;
  }
  set_standards(common_options);
  set_standards(pattern->options);
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--help") == 0) {
      print_usage(stdout, name);
      return 0;
    }
    set_option(name, argv[i]);
  }
  if (are_reversed("lowest=", "highest="))
    wrong_usage(name, "options", "lowest must not be above highest");
  if (are_reversed("first=", "last="))
    wrong_usage(name, "options", "first must not be above last");
  if (work)
    return write_workload(name);
  struct actor actor = {.script = NULL};
  uint64_t start_ns = os_monotonic_ns();
  pattern->run(&actor);
  report(actor.calls, "", start_ns);
  return 0;
}

/* SPDX-License-Identifier: MIT */
#include "convert/commands/options.h"

#include "core/command/diagnostics.h"
#include "core/command/near_option.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static int wrong(struct options_error *error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->text, sizeof error->text, format, arguments);
  va_end(arguments);
  return -1;
}

static bool parse_number(const char *text, double *number) {
  char *end;
  errno = 0;
  *number = strtod(text, &end);
  return end != text && *end == '\0' && errno == 0 && *number >= 0 && *number < 0x1p63;
}

static bool parse_integer(const char *text, uint64_t *integer) {
  double number;
  if (!parse_number(text, &number) || number != (double)(uint64_t)number)
    return false;
  *integer = (uint64_t)number;
  return true;
}

static const char *add_group(struct options *options, const char *text) {
  struct group *group = vector_add(&options->groups);
  return group ? group_parse(group, text) : "out of memory";
}

/* Positions rise, so that one comparison per op finds them. */
static const char *add_position(struct options *options, const char *text) {
  uint64_t position;
  if (!parse_integer(text, &position))
    return "needs a number of ops";
  if (options->positions.count && options->positions.at[options->positions.count - 1] >= position)
    return "needs rising positions";
  uint64_t *added = vector_add(&options->positions);
  if (!added)
    return "out of memory";
  *added = position;
  return NULL;
}

static const char *add_joined(struct options *options, const char *text) {
  uint64_t thread;
  if (!parse_integer(text, &thread) || thread > UINT32_MAX)
    return "needs a thread number";
  uint32_t *added = vector_add(&options->joined);
  if (!added)
    return "out of memory";
  *added = (uint32_t)thread;
  return NULL;
}

static const char *parse_sites(struct options *options, const char *text) {
  uint64_t sites;
  if (!parse_integer(text, &sites) || sites > UINT32_MAX)
    return "needs a number of sites";
  options->sites = (uint32_t)sites;
  return NULL;
}

static int parse_flags(struct options *options, int argc, char **argv, struct options_error *error) {
  struct option long_options[] = {
      {"accesses", required_argument, NULL, 'a'},
      {"origins", required_argument, NULL, 'O'},
      {"group", required_argument, NULL, 'G'},
      {"position", required_argument, NULL, 'P'},
      {"output", required_argument, NULL, 'o'},
      {"json", no_argument, NULL, 'j'},
      {"ranges", no_argument, NULL, 'r'},
      {"list", no_argument, NULL, 'l'},
      {"thread", required_argument, NULL, 't'},
      {"horizon", required_argument, NULL, 'z'},
      {"from", required_argument, NULL, 'f'},
      {"to", required_argument, NULL, 'T'},
      {"format", required_argument, NULL, 'F'},
      {"allow-gaps", no_argument, NULL, 'g'},
      {"process", required_argument, NULL, 'p'},
      {"slice", required_argument, NULL, 's'},
      {"stacks", no_argument, NULL, 'k'},
      {"debuginfod", no_argument, NULL, 'D'},
      {"nodes", no_argument, NULL, 'n'},
      {"merge", no_argument, NULL, 'M'},
      {"anonymise", no_argument, NULL, 'A'},
      {"archive", no_argument, NULL, 'C'},
      {"keep", required_argument, NULL, 'K'},
      {"end", required_argument, NULL, 'E'},
      {"plan", required_argument, NULL, 'L'},
      {"ops", required_argument, NULL, 'N'},
      {"join", required_argument, NULL, 'J'},
      {"from-byte", required_argument, NULL, 'B'},
      {"sites", required_argument, NULL, 'S'},
      {DIAGNOSTICS_COLOR_OPTION},
      {DIAGNOSTICS_QUIET_OPTION},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  const char *problem;
  int option;
  if (argc > 1 && strcmp(argv[1], "dump") == 0)
    long_options[0].has_arg = no_argument;
  opterr = 0;
  while ((option = getopt_long(argc, argv, "o:h", long_options, NULL)) != -1) {
    switch (option) {
    case 'o':
      options->out = optarg;
      break;
    case 'a':
      options->accesses = optarg;
      options->list_accesses = true;
      break;
    case 'O':
      options->origins = optarg;
      break;
    case 'G':
      if ((problem = add_group(options, optarg)))
        return wrong(error, "--group %s: %s", optarg, problem);
      break;
    case 'P':
      if ((problem = add_position(options, optarg)))
        return wrong(error, "--position %s: %s", optarg, problem);
      break;
    case 'K':
      options->keep = optarg;
      break;
    case 'L':
      options->plan = optarg;
      break;
    case 'N':
      if (!parse_integer(optarg, &options->ops) || options->ops == 0)
        return wrong(error, "--ops needs a number of ops, not '%s'", optarg);
      break;
    case 'E':
      if (!parse_integer(optarg, &options->end))
        return wrong(error, "--end needs a number of ops, not '%s'", optarg);
      options->has_end = true;
      break;
    case 'B':
      if (!parse_integer(optarg, &options->from_byte))
        return wrong(error, "--from-byte needs an offset, not '%s'", optarg);
      break;
    case 'S':
      if ((problem = parse_sites(options, optarg)))
        return wrong(error, "--sites %s: %s", optarg, problem);
      break;
    case 'J':
      if ((problem = add_joined(options, optarg)))
        return wrong(error, "--join %s: %s", optarg, problem);
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
      if (!parse_integer(optarg, &options->thread))
        return wrong(error, "--thread needs a thread number, not '%s'", optarg);
      options->has_thread = true;
      break;
    case 's':
      if ((problem = slice_spec_parse(&options->slice, optarg)))
        return wrong(error, "--slice %s: %s", optarg, problem);
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
        return wrong(error, "--horizon needs a number of nanoseconds, not '%s'", optarg);
      break;
    case 'g':
      options->import.allow_gaps = true;
      break;
    case 'p':
      if (!parse_integer(optarg, &options->import.process))
        return wrong(error, "--process needs a process id, not '%s'", optarg);
      options->import.has_process = true;
      break;
    case 'h':
      options->help = true;
      return 0;
    case DIAGNOSTICS_COLOR:
    case DIAGNOSTICS_QUIET:
      if (!diagnostics_take(option, optarg))
        return wrong(error, "--color is auto, always or never, not %s", optarg);
      break;
    default:
      if ((problem = near_option(argv[optind - 1], long_options)))
        return wrong(error, "unknown option %s: did you mean --%s?", argv[optind - 1], problem);
      return wrong(error, "unknown option, or one that lacks its value: %s", argv[optind - 1]);
    }
  }
  return 0;
}

int options_parse(struct options *options, int argc, char **argv, struct options_error *error) {
  *options = (struct options){.horizon_ns = -1, .slice = slice_everything()};
  if (parse_flags(options, argc, argv, error) != 0)
    return -1;
  int arguments = argc - optind;
  if (options->help)
    return 0;
  if (arguments == 0)
    return wrong(error, "no command");
  options->command = argv[optind];
  bool converts = strcmp(options->command, "convert") == 0;
  if (!options->merge && arguments > (converts ? 3 : 2))
    return wrong(error, "too many arguments: %s", argv[optind + arguments - 1]);
  if (arguments < 2 && !(converts && options->list))
    return wrong(error, "%s: no file given", options->command);
  options->in = arguments >= 2 ? argv[optind + 1] : NULL;
  if (arguments >= 3)
    options->out = argv[optind + arguments - 1];
  options->inputs = &argv[optind + 1];
  options->input_count = arguments >= 3 ? (uint32_t)arguments - 2 : 1;
  return 0;
}

/* SPDX-License-Identifier: MIT */
#include "core/command/cli.h"

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/command/diagnostics.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_OPTIONS = 64, MAX_COMMANDS = 32, WIDTH = 100, TERM_WIDTH = 23, DESCRIPTION_SCHEMA = 1 };

/* Codes of getopt_long: two options that no help lists, --describe-options and --help-all; and the index of another. */
enum { DESCRIBE = 0x5000, HELP_ALL, OPTION };
/* Of the command's own options, --help shows as many groups as do not exceed this. */
enum { SHOWN_OPTIONS = 12 };

/* The last options of every command; --help, which has no setting, is the very last. */
static const struct cli_option common_options[] = {
    {.name = "color",
     .value = "auto|always|never",
     .field = offsetof(struct diagnostics, color),
     .group = "messages",
     .help = "colour errors and warnings: at a terminal (auto, unless NO_COLOR is set), always or never"},
    {.name = "quiet",
     .take = cli_flag,
     .field = offsetof(struct diagnostics, quiet),
     .group = "messages",
     .help = "no progress and no notes on standard error; errors and warnings are still printed"},
    {.name = "help", .letter = 'h', .group = "messages", .help = "this text"},
    {.name = NULL},
};
enum { COMMON = sizeof common_options / sizeof *common_options - 1 };

/* A command's options, with the tables that it includes. */
struct flat_table {
  struct cli_option at[MAX_OPTIONS];
  int count;
};

static void flatten(struct flat_table *flat, const struct cli_option *option, size_t field) {
  for (; option && option->name; option++) {
    for (const struct cli_option *const *rows = option->added; rows < option->added_end; rows++)
      flatten(flat, *rows, field + option->field);
    flatten(flat, option->rows, field + option->field);
    if (!option->name[0])
      continue;
    if (flat->count == MAX_OPTIONS - 1)
      abort(); /* a table that no user can change */
    flat->at[flat->count] = *option;
    flat->at[flat->count++].field += field;
  }
}

static struct flat_table options_of(const struct cli_command *command) {
  struct flat_table flat = {.count = 0};
  flatten(&flat, command->options, 0);
  flatten(&flat, common_options, 0);
  return flat;
}

static bool value_is_optional(const struct cli_option *option) {
  return option->value && strncmp(option->value, "[=", 2) == 0;
}

static bool is_choice(const struct cli_option *option) {
  const char *value = option->value;
  return value && strchr(value, '|') && value[strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789-|")] == '\0';
}

/* Values. */

static bool parse_decimal(const char *text, double *number) {
  char *end;
  errno = 0;
  *number = strtod(text, &end);
  return end != text && *end == '\0' && errno == 0 && *number >= 0 && *number < 0x1p63;
}

const char *cli_flag(void *field, const char *value) {
  (void)value;
  *(bool *)field = true;
  return NULL;
}

const char *cli_text(void *field, const char *value) {
  *(const char **)field = value;
  return NULL;
}

const char *cli_decimal(void *field, const char *value) {
  return parse_decimal(value, field) ? NULL : "is not a number of at least 0";
}

/* 1e6 is a whole number, too. */
const char *cli_count(void *field, const char *value) {
  double number;
  if (!parse_decimal(value, &number) || number != (double)(uint64_t)number)
    return "is not a whole number of at least 0";
  *(uint64_t *)field = (uint64_t)number;
  return NULL;
}

const char *cli_count_above_0(void *field, const char *value) {
  const char *problem = cli_count(field, value);
  return problem || *(uint64_t *)field == 0 ? "is not a whole number above 0" : NULL;
}

const char *cli_count_32(void *field, const char *value) {
  uint64_t number;
  if (cli_count(&number, value) || number > UINT32_MAX)
    return "is not a whole number below 2^32";
  *(uint32_t *)field = (uint32_t)number;
  return NULL;
}

/* Which of choices the text is, from 0; -1: none. */
static int choice_index(const char *choices, const char *text) {
  size_t length = strlen(text);
  for (int index = 0;; index++) {
    size_t bytes = strcspn(choices, "|");
    if (bytes == length && memcmp(choices, text, length) == 0)
      return index;
    if (choices[bytes] == '\0')
      return -1;
    choices += bytes + 1;
  }
}

/* Errors. */

int cli_wrong(const char *program, const struct cli_command *command, const char *format, ...) {
  diagnostics_begin_error(program);
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, " (%s --help)\n", command ? command->called : program);
  return CLI_WRONG_USAGE;
}

int cli_finish_output(const char *program) {
  if (fflush(stdout) == 0 && !ferror(stdout))
    return CLI_DONE;
  diagnostics_error(program, "standard output: can't write: %s", strerror(errno));
  return CLI_FAILED;
}

/* Help. */

static void print_details(const char *text) {
  while (*text) {
    const char *end = strstr(text, "\n\n");
    size_t bytes = end ? (size_t)(end - text) : strlen(text);
    if (*text == ' ') {
      printf("%.*s\n", (int)bytes, text);
    } else {
      char *paragraph = strndup(text, bytes);
      text_print(stdout, paragraph ? paragraph : "", WIDTH, 0, 0);
      free(paragraph);
    }
    printf("\n");
    text += bytes + (end ? 2 : 0);
  }
}

static void print_option(const struct cli_option *option) {
  char term[128];
  const char letter[] = {'-', option->letter, ',', ' ', '\0'};
  snprintf(term, sizeof term, "%s--%s%s%s", option->letter ? letter : "", option->name,
           option->value && !value_is_optional(option) ? " " : "", option->value ? option->value : "");
  size_t column = 2 + strlen(term);
  printf("  %s", term);
  if (column + 2 > TERM_WIDTH) {
    printf("\n");
    column = 0;
  }
  printf("%*s", (int)(TERM_WIDTH - column), "");
  char *text = NULL;
  if (option->fallback && asprintf(&text, "%s (default %s)", option->help, option->fallback) < 0)
    text = NULL;
  text_print(stdout, text ? text : option->help, WIDTH, TERM_WIDTH, TERM_WIDTH);
  free(text);
}

static const char *group_of(const struct cli_option *option) {
  return option->group ? option->group : "options";
}

/* The options of a group, which stand together. */
static uint32_t group_count(const struct cli_option *first) {
  uint32_t count = 1;
  while (first[count].name && strcmp(group_of(&first[count]), group_of(first)) == 0)
    count++;
  return count;
}

static void print_options(const struct cli_option *option, bool all) {
  uint32_t shown = 0, hidden = 0;
  for (uint32_t count; option->name; option += count) {
    count = group_count(option);
    bool own = strcmp(group_of(option), "messages") != 0;
    if (own && shown && !all && shown + count > SHOWN_OPTIONS) {
      hidden += count;
      continue;
    }
    printf("%s%s:\n", shown ? "\n" : "", group_of(option));
    for (uint32_t i = 0; i < count; i++)
      print_option(&option[i]);
    shown += count;
  }
  if (hidden)
    printf("\n--help-all shows %u more options.\n", hidden);
}

static void print_usage(const struct cli_command *command) {
  const char *form = command->synopsis;
  for (const char *before = "usage:"; *form; before = "      ") {
    size_t bytes = strcspn(form, "\n");
    printf("%s %s %.*s\n", before, command->called, (int)bytes, form);
    form += bytes + (form[bytes] == '\n');
  }
  printf("\n");
}

static int print_help(const struct cli_program *program, const struct cli_command *command, bool all) {
  print_usage(command);
  print_details(command->details);
  print_options(options_of(command).at, all);
  return cli_finish_output(program->name);
}

static int print_help_of_all(const struct cli_program *program) {
  printf("usage: %s COMMAND [OPTION...] [ARGUMENT...]\n\ncommands:\n", program->name);
  for (const struct cli_command *const *command = program->commands; *command; command++)
    printf("  %-30s %s\n", (*command)->called, (*command)->summary);
  printf("\nCOMMAND --help shows one command. --describe-options describes all as JSON.\n");
  return cli_finish_output(program->name);
}

/* Description. */

static json_t *describe_options(const struct cli_option *option) {
  json_t *list = json_array();
  for (; option->name; option++) {
    char letter[] = {'-', option->letter, '\0'};
    bool optional = value_is_optional(option);
    json_t *flags = json_array(), *value = json_null();
    if (option->letter)
      json_array_append_new(flags, json_string(letter));
    json_array_append_new(flags, json_sprintf("--%s", option->name));
    if (option->value)
      value = optional ? json_stringn(option->value + 2, strlen(option->value) - 3) : json_string(option->value);
    json_array_append_new(list, json_pack("{s:o, s:o, s:b, s:o, s:b, s:s, s:s?, s:s}", "flags", flags, "value", value,
                                          "value_optional", optional, "choices",
                                          is_choice(option) ? json_split(option->value, "|") : json_null(), "repeats",
                                          option->repeats, "help", option->help, "default", option->fallback, "group",
                                          option->group ? option->group : "options"));
  }
  return list;
}

static json_t *describe_command(const struct cli_command *command) {
  json_int_t most = command->most;
  return json_pack("{s:s, s:s, s:o, s:o, s:{s:I, s:o, s:b}, s:o}", "called", command->called, "summary",
                   command->summary, "synopsis", json_split(command->synopsis, "\n"), "details",
                   json_split(command->details, "\n\n"), "arguments", "least", (json_int_t)command->least, "most",
                   most ? json_integer(most) : json_null(), "end_options", command->ends_at_argument, "options",
                   describe_options(options_of(command).at));
}

static int describe(const struct cli_program *program) {
  json_t *commands = json_array();
  for (const struct cli_command *const *command = program->commands; *command; command++)
    json_array_append_new(commands, describe_command(*command));
  json_t *whole =
      json_pack("{s:i, s:s, s:o}", "schema", DESCRIPTION_SCHEMA, "program", program->name, "commands", commands);
  json_dumpf(whole, stdout, JSON_INDENT(1));
  printf("\n");
  json_decref(whole);
  return cli_finish_output(program->name);
}

/* Parsing. */

struct getopt_table {
  struct flat_table flat; /* getopt's code of an option: OPTION + its index */
  struct option options[MAX_OPTIONS + 1];
  char letters[2 * MAX_OPTIONS + 4];
  int count;
  size_t letter_count;
};

static void add_row(struct getopt_table *table, const struct cli_option *option, int code) {
  int has = value_is_optional(option) ? optional_argument : option->value ? required_argument : no_argument;
  table->options[table->count++] = (struct option){option->name, has, NULL, code};
  if (!option->letter)
    return;
  table->letters[table->letter_count++] = option->letter;
  if (has == required_argument)
    table->letters[table->letter_count++] = ':';
}

static void fill(struct getopt_table *table, const struct cli_command *command) {
  *table = (struct getopt_table){.flat = options_of(command)};
  if (command->ends_at_argument)
    table->letters[table->letter_count++] = '+';
  table->letters[table->letter_count++] = ':'; /* tells options that lack a value from unknown ones */
  for (int i = 0; i < table->flat.count; i++)
    add_row(table, &table->flat.at[i], OPTION + i);
  add_row(table, &(struct cli_option){.name = "describe-options"}, DESCRIBE);
  add_row(table, &(struct cli_option){.name = "help-all"}, HELP_ALL);
}

static int index_of(const struct getopt_table *table, int code) {
  int index = 0;
  while (table->options[index].val != code && table->flat.at[index].letter != code)
    index++;
  return index;
}

static int refuse(const struct cli_program *program, const struct cli_command *command, const char *word,
                  const struct option *known) {
  const char *near = near_option(word, known);
  if (near)
    return cli_wrong(program->name, command, "unknown option %s: did you mean --%s?", word, near);
  size_t bytes = strcspn(word, "=");
  for (; known->name; known++)
    if (word[bytes] == '=' && strlen(known->name) + 2 == bytes && strncmp(word + 2, known->name, bytes - 2) == 0)
      return cli_wrong(program->name, command, "--%s takes no value: %s", known->name, word);
  return cli_wrong(program->name, command, "unknown option %s", word);
}

static int take_value(const struct cli_program *program, const struct cli_command *command,
                      const struct cli_option *option, void *settings) {
  void *field = (char *)settings + option->field;
  if (is_choice(option)) {
    *(int *)field = choice_index(option->value, optarg);
    return *(int *)field >= 0
               ? CLI_RUN
               : cli_wrong(program->name, command, "--%s is one of %s, not %s", option->name, option->value, optarg);
  }
  const char *problem = option->take(field, optarg);
  if (!problem)
    return CLI_RUN;
  return cli_wrong(program->name, command, "--%s%s%s: %s", option->name, optarg ? " " : "", optarg ? optarg : "",
                   problem);
}

static int parse_options(const struct cli_program *program, const struct cli_command *command, void *settings,
                         const struct cli_words *words) {
  struct getopt_table table;
  fill(&table, command);
  int code, result = CLI_RUN;
  opterr = 0;
  optind = 0; /* GNU: begin anew */
  while (result == CLI_RUN && (code = getopt_long(words->count, words->at, table.letters, table.options, NULL)) != -1) {
    if (code == DESCRIBE)
      return describe(program);
    if (code == HELP_ALL)
      return print_help(program, command, true);
    if (code == ':')
      return cli_wrong(program->name, command, "%s needs a value", words->at[optind - 1]);
    if (code == '?')
      return refuse(program, command, words->at[optind - 1], table.options);
    int index = index_of(&table, code), own = table.flat.count - COMMON;
    if (index == table.flat.count - 1)
      return print_help(program, command, false);
    result = take_value(program, command, &table.flat.at[index], index < own ? settings : &diagnostics);
  }
  return result;
}

int cli_spares_inputs(const char *program, const struct cli_command *command, const char *output,
                      struct cli_words read) {
  struct stat written, one;
  if (!output || strcmp(output, "-") == 0 || stat(output, &written) != 0 || !S_ISREG(written.st_mode))
    return CLI_RUN;
  for (int i = 0; i < read.count; i++)
    if (stat(read.at[i], &one) == 0 && one.st_dev == written.st_dev && one.st_ino == written.st_ino)
      return cli_wrong(program, command, "%s is read, so it can't be the output", output);
  return CLI_RUN;
}

/* What was given by -o; NULL: nothing, or there is no such option. */
static const char *output_of(const struct cli_command *command, const void *settings) {
  struct flat_table flat = options_of(command);
  for (int i = 0; i < flat.count; i++)
    if (flat.at[i].letter == 'o' && flat.at[i].take == cli_text)
      return *(const char *const *)((const char *)settings + flat.at[i].field);
  return NULL;
}

int cli_parse(const struct cli_program *program, const struct cli_command *command, void *settings,
              struct cli_words *words) {
  int result = parse_options(program, command, settings, words);
  if (result != CLI_RUN)
    return result;
  *words = (struct cli_words){words->at + optind, words->count - optind};
  if (words->count < command->least)
    return cli_wrong(program->name, command, "too few arguments");
  if (command->most && words->count > command->most)
    return cli_wrong(program->name, command, "too many arguments: %s", words->at[command->most]);
  return cli_spares_inputs(program->name, command, output_of(command, settings), *words);
}

/* Programs with several commands. */

static const char *word_of(const struct cli_command *command) {
  const char *space = strrchr(command->called, ' ');
  return space ? space + 1 : command->called;
}

static int run_command(const struct cli_program *program, const struct cli_command *command, struct cli_words words) {
  _Alignas(max_align_t) char settings[command->settings_bytes + 1];
  memset(settings, 0, sizeof settings);
  if (command->defaults)
    memcpy(settings, command->defaults, command->settings_bytes);
  int status = cli_parse(program, command, settings, &words);
  return status == CLI_RUN ? command->run(settings, words) : status;
}

int cli_main(const struct cli_program *program, int argc, char **argv) {
  const char *names[MAX_COMMANDS + 1] = {NULL};
  if (argc < 2)
    return cli_wrong(program->name, NULL, "no command");
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
    return print_help_of_all(program);
  if (strcmp(argv[1], "--describe-options") == 0)
    return describe(program);
  for (int i = 0; program->commands[i]; i++) {
    names[i] = word_of(program->commands[i]);
    if (strcmp(argv[1], names[i]) == 0)
      return run_command(program, program->commands[i], (struct cli_words){argv + 1, argc - 1});
  }
  const char *near = near_word(argv[1], names);
  if (near)
    return cli_wrong(program->name, NULL, "unknown command '%s': did you mean '%s'?", argv[1], near);
  return cli_wrong(program->name, NULL, "unknown command '%s'", argv[1]);
}

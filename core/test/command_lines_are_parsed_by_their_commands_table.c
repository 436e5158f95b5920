/* SPDX-License-Identifier: MIT */
/* Two commands with different tables: what each takes, and the one line and status with which it refuses the rest. */
#include "core/command/cli.h"
#include "core/test/check.h"

#include <jansson.h>

struct inner {
  uint64_t unused;
  bool deep;
};

struct settings {
  struct inner inner;
  bool json;
  const char *out;
  uint64_t ops;
  double share;
  int format;
  uint32_t depth;
};

static const char *take_depth(void *field, const char *value) {
  *(uint32_t *)field = 32;
  return value ? cli_count_32(field, value) : NULL;
}

static const struct cli_option shared_options[] = {
    {.name = "deep", .take = cli_flag, .field = offsetof(struct inner, deep), .help = "of several commands"},
    {.name = NULL},
};

/* As a feature adds them. */
static const struct cli_option more_options[] = {
    {.name = "", .rows = shared_options},
    {.name = NULL},
};
CLI_ADD(info, more_options);

CLI_PLACE(info);
CLI_PLACE(empty);
static const struct cli_option info_options[] = {
    {CLI_ADDED(empty)},
    {CLI_ADDED(info), .field = offsetof(struct settings, inner)},
    {.name = "json", .take = cli_flag, .field = offsetof(struct settings, json), .help = "as JSON"},
    {.name = "format", .value = "text|csv", .field = offsetof(struct settings, format), .help = "which form"},
    {.name = NULL},
};

static const struct cli_option cut_options[] = {
    {.name = "output",
     .letter = 'o',
     .value = "F",
     .take = cli_text,
     .field = offsetof(struct settings, out),
     .help = "where"},
    {.name = "ops",
     .value = "N",
     .take = cli_count_above_0,
     .field = offsetof(struct settings, ops),
     .help = "how many"},
    {.name = "share",
     .value = "X",
     .take = cli_decimal,
     .field = offsetof(struct settings, share),
     .help = "of all",
     .fallback = "0.5",
     .group = "how much"},
    {.name = "stacks",
     .value = "[=DEPTH]",
     .take = take_depth,
     .field = offsetof(struct settings, depth),
     .help = "with stacks"},
    {.name = NULL},
};

static struct settings settings;
static struct cli_words rest;

static int run(void *parsed, struct cli_words words) {
  settings = *(struct settings *)parsed;
  rest = words;
  return 7;
}

static const struct cli_command info = {.called = "tool info",
                                        .summary = "shows a file",
                                        .synopsis = "[OPTION...] F",
                                        .details = "Shows\na file.\n\n  kept  as it is",
                                        .options = info_options,
                                        .least = 1,
                                        .most = 1,
                                        .settings_bytes = sizeof settings,
                                        .run = run};
static const struct cli_command cut = {.called = "tool cut",
                                       .summary = "cuts files",
                                       .synopsis = "F...\n--all",
                                       .details = "Cuts.",
                                       .options = cut_options,
                                       .ends_at_argument = true,
                                       .settings_bytes = sizeof settings,
                                       .run = run};
static const struct cli_command *const commands[] = {&info, &cut, NULL};
static const struct cli_program program = {"tool", commands};

/* Calls main with the words of line, separated by one space. *text is what it printed to the stream. */
static int call(const char *line, FILE *stream, char text[4096]) {
  char *words[16] = {"tool"}, copy[256];
  int count = 1;
  snprintf(copy, sizeof copy, "%s", line);
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
    words[count++] = word;
  settings = (struct settings){.share = 0.5};
  FILE *file = tmpfile();
  CHECK(file);
  fflush(stream);
  int saved = dup(fileno(stream));
  dup2(fileno(file), fileno(stream));
  int status = cli_main(&program, count, words);
  fflush(stream);
  dup2(saved, fileno(stream));
  close(saved);
  rewind(file);
  text[fread(text, 1, 4095, file)] = '\0';
  fclose(file);
  return status;
}

static void refusals(void) {
  static const struct {
    const char *line, *says;
  } cases[] = {
      {"", "tool: no command (tool --help)\n"},
      {"inof f", "tool: unknown command 'inof': did you mean 'info'? (tool --help)\n"},
      {"frobnicate f", "tool: unknown command 'frobnicate' (tool --help)\n"},
      {"info", "tool: too few arguments (tool info --help)\n"},
      {"info f g", "tool: too many arguments: g (tool info --help)\n"},
      {"info f --ops 3", "tool: unknown option --ops (tool info --help)\n"}, /* which cut has */
      {"info f -o g", "tool: unknown option -o (tool info --help)\n"},
      {"info f --jsno", "tool: unknown option --jsno: did you mean --json? (tool info --help)\n"},
      {"info f --json=3", "tool: --json takes no value: --json=3 (tool info --help)\n"},
      {"info f --format", "tool: --format needs a value (tool info --help)\n"},
      {"info f --format xml", "tool: --format is one of text|csv, not xml (tool info --help)\n"},
      {"cut --json f", "tool: unknown option --json (tool cut --help)\n"},
      {"cut -o", "tool: -o needs a value (tool cut --help)\n"},
      {"cut --ops 0 f", "tool: --ops 0: is not a whole number above 0 (tool cut --help)\n"},
      {"cut --ops 1.5 f", "tool: --ops 1.5: is not a whole number above 0 (tool cut --help)\n"},
      {"cut --share -1 f", "tool: --share -1: is not a number of at least 0 (tool cut --help)\n"},
      {"cut --stacks=x f", "tool: --stacks x: is not a whole number below 2^32 (tool cut --help)\n"},
      {"cut --color never --color red f", "tool: --color is one of auto|always|never, not red (tool cut --help)\n"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[4096];
    int status = call(cases[i].line, stderr, text);
    CHECK(status == CLI_WRONG_USAGE, "%s: status %d", cases[i].line, status);
    CHECK(strcmp(text, cases[i].says) == 0, "%s: %s", cases[i].line, text);
  }
}

static void accepted(void) {
  char text[4096];
  CHECK(call("info f --js --deep --format csv", stderr, text) == 7 && !*text);
  CHECK(settings.json && settings.inner.deep && !settings.inner.unused && settings.format == 1 && rest.count == 1 &&
        strcmp(rest.at[0], "f") == 0);
  CHECK(call("cut --share=0.25 -ox --ops 1e3 --stacks f --json", stderr, text) == 7 && !*text);
  CHECK(settings.share == 0.25 && settings.ops == 1000 && settings.depth == 32 && strcmp(settings.out, "x") == 0);
  CHECK(rest.count == 2 && strcmp(rest.at[1], "--json") == 0); /* after the first argument nothing is an option */
  CHECK(call("cut --stacks=8", stderr, text) == 7 && settings.depth == 8 && rest.count == 0);
}

static void help_and_description(void) {
  char text[4096];
  CHECK(call("cut --help", stdout, text) == CLI_DONE);
  CHECK(strstr(text,
               "usage: tool cut F...\n       tool cut --all\n\nCuts.\n\noptions:\n  -o, --output F       where\n") ==
            text,
        "%s", text);
  CHECK(strstr(text, "\nhow much:\n  --share X            of all (default 0.5)\n"), "%s", text);
  CHECK(call("info -h", stdout, text) == CLI_DONE && strstr(text, "\nShows a file.\n\n  kept  as it is\n"), "%s", text);
  CHECK(call("--help", stdout, text) == CLI_DONE && strstr(text, "  tool cut "), "%s", text);
  CHECK(call("--describe-options", stdout, text) == CLI_DONE);
  json_t *all = json_loads(text, 0, NULL), *options;
  const char *called, *help, *fallback;
  int optional;
  CHECK(json_unpack(json_array_get(json_object_get(all, "commands"), 1), "{s:s, s:o}", "called", &called, "options",
                    &options) == 0);
  CHECK(strcmp(called, "tool cut") == 0 && json_array_size(options) == 4 + 3, "%s", text);
  CHECK(json_unpack(json_array_get(options, 2), "{s:s, s:s}", "help", &help, "default", &fallback) == 0);
  CHECK(strcmp(help, "of all") == 0 && strcmp(fallback, "0.5") == 0);
  CHECK(json_unpack(json_array_get(options, 3), "{s:b}", "value_optional", &optional) == 0 && optional);
  json_decref(all);
}

int main(void) {
  refusals();
  accepted();
  help_and_description();
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* heaptape-convert: its table of commands. */
#include "convert/commands/commands.h"

#include "core/command/diagnostics.h"
#include "core/command/near_option.h"
#include "core/files/output_file.h"

#include <stdio.h>
#include <string.h>

static const struct command *const commands[] = {&command_compile, &command_check,   &command_info,   &command_profile,
                                                 &command_dump,    &command_convert, &command_reduce, &command_distil,
                                                 &command_windows, &command_names,   &command_spans};
enum { COMMANDS = sizeof commands / sizeof *commands };

static const char about_files[] = "IN and F: a trace (.tape), a workload (.work; check and info), or any format that "
                                  "'heaptape convert --list' shows, detected\n"
                                  "by content. - is standard input or output.\n\n" DIAGNOSTICS_HELP;

/* The help of that command, or of all commands if there is none of that name. */
static int print_help(const char *name) {
  bool named = false;
  for (size_t i = 0; i < COMMANDS; i++)
    named = named || strcmp(commands[i]->name, name) == 0;
  for (size_t i = 0; i < COMMANDS; i++)
    if (!named || strcmp(commands[i]->name, name) == 0)
      printf("%s\n", commands[i]->help);
  fputs(about_files, stdout);
  return finish_output(EXIT_DONE);
}

static const struct command *find(const char *name) {
  for (size_t i = 0; i < COMMANDS; i++)
    if (strcmp(name, commands[i]->name) == 0)
      return commands[i];
  return NULL;
}

static int refuse(const char *name) {
  const char *names[COMMANDS + 1] = {NULL};
  for (size_t i = 0; i < COMMANDS; i++)
    names[i] = commands[i]->name;
  const char *near = near_word(name, names);
  if (near)
    return usage_error("unknown command '%s': did you mean '%s'?", name, near);
  return usage_error("unknown command '%s'", name);
}

int main(int argc, char **argv) {
  struct options options;
  struct options_error error;
  int parsed = options_parse(&options, argc, argv, &error);
  if (options.command && !find(options.command))
    return refuse(options.command);
  if (parsed != 0)
    return usage_error("%s", error.text);
  if (options.help)
    return print_help(argv[1]);
  output_file_guard();
  return find(options.command)->run(&options);
}

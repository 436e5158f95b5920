/* heaptape-convert: its table of commands. */
#include "convert/driver/command.h"

#include "core/base/output_file.h"

#include <stdio.h>
#include <string.h>

static const struct command *const commands[] = {&command_compile, &command_check, &command_info,
                                                 &command_profile, &command_dump,  &command_convert};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* On more than one command. */
static const char general[] =
    "IN and F: a trace (.tape), a workload (.work; check and info), or any format that convert --list shows, "
    "recognised\n"
    "by content. - is standard input or output.\n"
    "--horizon: how long, in ns of the recording, a step that can't be legal yet waits for the one that makes it so\n"
    "(10 ms, or 0 where the order is known to be right).\n"
    "--allow-gaps takes recordings that report lost events; --process chooses among the processes of one.\n";

static void print_synopsis(const struct command *command, const char *before) {
  for (const char *line = command->synopsis; *line;) {
    int length = (int)strcspn(line, "\n");
    printf("%s heaptape-convert %.*s\n", before, length, line);
    line += length + 1;
    before = "      ";
  }
}

static int print_help(void) {
  for (size_t i = 0; i < COMMANDS; i++)
    print_synopsis(commands[i], i == 0 ? "usage:" : "      ");
  printf("\n%s", general);
  for (size_t i = 0; i < COMMANDS; i++)
    if (commands[i]->notes)
      printf("\n%s", commands[i]->notes);
  return finish_output(EXIT_DONE);
}

int main(int argc, char **argv) {
  struct options options;
  struct options_error error;
  if (options_parse(&options, argc, argv, &error) != 0)
    return usage_error("%s", error.text);
  if (options.help)
    return print_help();
  output_file_guard();
  for (size_t i = 0; i < COMMANDS; i++)
    if (strcmp(options.command, commands[i]->name) == 0)
      return commands[i]->run(&options);
  return usage_error("unknown command '%s'", options.command);
}

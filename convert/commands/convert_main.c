/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"
#include "core/base/files.h"
#include "core/base/vector.h"

#include <stdlib.h>
#include <string.h>

REGISTRY(convert_commands, cli_command);

static int by_turn(const void *left, const void *right) {
  const struct cli_command *const *a = left, *const *b = right;
  return COMPARE((*a)->turn, (*b)->turn);
}

int main(int argc, char **argv) {
  size_t count = (size_t)(__stop_convert_commands - __start_convert_commands);
  const struct cli_command *commands[count + 1];
  memcpy(commands, __start_convert_commands, count * sizeof *commands);
  commands[count] = NULL;
  qsort(commands, count, sizeof *commands, by_turn);
  output_file_guard();
  return cli_main(&(struct cli_program){CONVERT, commands}, argc, argv);
}

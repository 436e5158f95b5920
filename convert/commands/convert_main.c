/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"
#include "core/base/files.h"

static const struct cli_command *const commands[] = {
    &command_compile, &command_check,  &command_info,  &command_profile, &command_dump,
    &command_convert, &command_reduce, &command_names, &command_spans,   NULL};

int main(int argc, char **argv) {
  output_file_guard();
  return cli_main(&(struct cli_program){CONVERT, commands}, argc, argv);
}

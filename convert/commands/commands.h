/* SPDX-License-Identifier: MIT */
/* The commands of heaptape-convert.

   Each file owns the table of options, the help and the work of one command, or of two of a kind. Only the files of
   this folder print diagnostics. A command returns the exit status: 0 done, 1 failed, 2 wrong usage. */
#pragma once

#include "convert/commands/input.h"
#include "convert/compile/compile.h"
#include "core/base/registry.h"

/* A command is registered by being linked. */
#define REGISTER_COMMAND(command) REGISTRY_ADD(convert_commands, cli_command, entry_##command, &command)

/* What a command that reads one file says of it. */
#define ABOUT_FILES                                                                                                    \
  "F: a trace (.tape), a workload (.work; check, dump and info), or any format that 'heaptape convert --list' shows, " \
  "detected by content. - is standard input or output."

/* What `compile` makes of a trace. */
struct compile_job {
  const char *in; /* the name in warnings */
  const char *out;
  double horizon_ns;
  struct compile_added added;
};

/* Compiles into files that appear whole or not at all. What is missing in files beside is reported on stderr. Returns
   0, or -1 with error. */
int compile_to(struct trace_reader *reader, const struct compile_job *job, struct witness *witness,
               struct error *error);

/* Warns on stderr of a history that is not legal. Returns whether it is. */
bool told_legal(const char *in, const struct witness *witness);

/* SPDX-License-Identifier: MIT */
/* The commands of heaptape-convert, and what they share.

   Each file owns the table of options, the help and the work of one command, or of two of a kind. Only the files of
   this folder print diagnostics. A command returns the exit status: 0 done, 1 failed, 2 wrong usage. */
#pragma once

#include "convert/history/history.h"
#include "convert/whatif/rewriter.h"
#include "core/base/cli.h"
#include "core/base/diagnostics.h"

#include <jansson.h>

#define CONVERT "heaptape-convert"

enum { EXIT_DONE = CLI_DONE, EXIT_FAILED = CLI_FAILED, EXIT_USAGE = CLI_WRONG_USAGE };

extern const struct cli_program convert_program;
extern const struct cli_command command_compile, command_check, command_info, command_profile, command_dump,
    command_convert, command_reduce, command_distil, command_windows, command_names, command_spans;

/* What a command that reads one file says of it. */
#define ABOUT_FILES                                                                                                    \
  "F: a trace (.tape), a workload (.work; check, dump and info), or any format that 'heaptape convert --list' shows, " \
  "detected by content. - is standard input or output."

/* Prints the error; returns EXIT_FAILED. */
int failed(const struct error *error);

/* Returns status, or EXIT_FAILED with a message if output was lost (a full disk, a closed pipe). */
int finish_output(int status);

/* Prints the object with its shape's version (docs/formats/SCHEMAS.md) and takes its reference; returns the exit
   status. */
int print_json(json_t *object);

/* The default options for a history, with progress under that label; call progress_end when it is over. */
struct history_options history_with_progress(struct progress *progress, const char *label,
                                             const struct trace_reader *reader);

/* What `compile` makes of a trace. */
struct compile_job {
  const char *in;                       /* the name in warnings */
  const char *out, *accesses, *origins; /* accesses, origins: NULL where they are not wanted */
  double horizon_ns;
  struct groups groups; /* none: the history as it is; not together with accesses */
  struct positions positions;
};

/* Compiles into files that appear whole or not at all. Accesses that are missing are reported on stderr. Returns 0, or
   -1 with error. */
int compile_to(struct trace_reader *reader, const struct compile_job *job, struct witness *witness,
               struct error *error);

/* SPDX-License-Identifier: MIT */
/* The commands of heaptape-convert: a table of entries, one per file, and what these files share.

   Only the files of this folder print diagnostics, and only main exits. A command returns the exit status: 0 done, 1
   failed, 2 wrong usage. */
#pragma once

#include "convert/commands/inputs.h"
#include "convert/commands/options.h"
#include "convert/history/history.h"
#include "core/base/diagnostics.h"

#include <jansson.h>

#define CONVERT "heaptape-convert"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct command {
  const char *name;
  const char *help; /* synopsis, what it does, its options: `heaptape COMMAND --help` */
  int (*run)(const struct options *options);
};

/* Each is in command_NAME.c. */
extern const struct command command_compile, command_check, command_info, command_profile, command_dump,
    command_convert, command_reduce, command_distil, command_windows, command_names, command_spans;

/* Prints what is wrong with the command line; returns EXIT_USAGE. */
__attribute__((format(printf, 1, 2))) int usage_error(const char *format, ...);

/* Prints the error; returns EXIT_FAILED. */
int failed(const struct error *error);

/* Returns status, or EXIT_FAILED with a message if output was lost (a full disk, a closed pipe). */
int finish_output(int status);

/* Prints the object with its shape's version (docs/formats/SCHEMAS.md) and takes its reference; returns the exit
   status. */
int print_json(json_t *object);

/* Prints on stderr what an import left out or guessed, if anything. */
void print_import_report(const char *in, const struct import_report *report);

/* input_open; prints the report of an import on stderr. */
int open_input(struct trace_reader **reader, const char *in, const struct format *format, const struct options *options,
               struct error *error);

/* The options for a history, with progress under that label; call progress_end when it is over. */
struct history_options history_options_of(const struct options *options, struct progress *progress, const char *label,
                                          const struct trace_reader *reader);

/* Compiles into files that appear whole or not at all: the workload, and options->accesses if it is given. Accesses
   that are missing are reported on stderr. Returns 0, or -1 with error. */
int compile_to(struct trace_reader *reader, const char *out, const struct options *options, struct witness *witness,
               struct error *error);

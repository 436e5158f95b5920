/* SPDX-License-Identifier: MIT */
/* What the commands share: how they end and print, input files of any format opened as traces or workloads, and the
   options on how they are read.

   A foreign recording is imported into a temporary trace; what the import left out is reported on stderr. A trace from
   which a workload is wanted is compiled into a temporary one. Not thread-safe. */
#pragma once

#include "convert/foreign/format.h"
#include "convert/history/history.h"
#include "core/command/cli.h"
#include "core/command/diagnostics.h"
#include "core/trace/read/trace_read.h"
#include "core/workload/workload_read.h"

#include <jansson.h>

#define CONVERT "heaptape-convert"

enum { EXIT_DONE = CLI_DONE, EXIT_FAILED = CLI_FAILED, EXIT_USAGE = CLI_WRONG_USAGE };

/* Prints the error; returns EXIT_FAILED. */
int failed(const struct error *error);

/* Prints the object with its shape's version (docs/formats/SCHEMAS.md) and takes its reference; returns the exit
   status. */
int print_json(json_t *object);

/* The default options for a history, with progress under that label; call progress_end when it is over. */
struct history_options history_with_progress(struct progress *progress, const char *label,
                                             const struct trace_reader *reader);

struct input_settings {
  const struct format *from; /* NULL: by content */
  struct import_options import;
};

/* Rows for the tables of commands that read files of any format. */
extern const struct cli_option input_options[];

/* Stores the format of that name in a const struct format *. */
const char *take_format(void *field, const char *value);

/* The path to read from: after input_format, "-" is a regular file. */
const char *input_path(const char *path);

/* The format of the file at path. NULL with error. */
const struct format *input_format(const char *path, const struct input_settings *settings, struct error *error);

/* Imports the foreign recording at path into the trace at out. Returns 0, or -1 with error. */
int input_import(const char *path, const struct format *format, const struct input_settings *settings, const char *out,
                 struct error *error);

/* Opens path as a trace; a workload can't become one. Returns 0, or -1 with error. */
int input_open_trace(struct trace_reader **reader, const char *path, const struct input_settings *settings,
                     struct error *error);

/* A file as it is: a trace, or (reader is NULL) a workload. */
struct input {
  struct trace_reader *reader;
  struct workload workload;
};

/* Opens path as what it is. Returns 0, or -1 with error; then nothing is open. */
int input_open(struct input *input, const char *path, const struct input_settings *settings, struct error *error);

void input_close(struct input *input);

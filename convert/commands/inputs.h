/* SPDX-License-Identifier: MIT */
/* Opens input files of any format as traces or workloads, and the options on how they are read.

   A foreign recording is imported into a temporary trace; what the import left out is reported on stderr. A trace from
   which a workload is wanted is compiled into a temporary one. Not its job: recognising formats
   (convert/formats/formats.h). Not thread-safe. */
#pragma once

#include "convert/formats/formats.h"
#include "core/base/cli.h"
#include "core/base/files.h"
#include "core/trace/read/trace_read.h"
#include "core/workload/workload_read.h"

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
  struct temporary_file compiled; /* holds the workload of input_open_workload */
};

/* Opens path as what it is. Returns 0, or -1 with error; then nothing is open. */
int input_open(struct input *input, const char *path, const struct input_settings *settings, struct error *error);

/* Opens path as a workload, compiled if it is none. An illegal history is reported on stderr. Returns 0, or -1 with
   error; input_close in either case. */
int input_open_workload(struct input *input, const char *path, const struct input_settings *settings,
                        struct error *error);

void input_close(struct input *input);

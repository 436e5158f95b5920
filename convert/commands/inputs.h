/* SPDX-License-Identifier: MIT */
/* Opens input files of any format as traces. A foreign recording is imported into a temporary trace.

   Not its job: recognising formats (convert/formats/formats.h). Not thread-safe. */
#pragma once

#include "convert/formats/formats.h"
#include "core/trace/read/trace_read.h"

/* The path to read from: after input_format, "-" is a regular file. */
const char *input_path(const char *path);

/* The format of the file at path, by its content unless the user names one (from; NULL: none). NULL with error. */
const struct format *input_format(const char *path, const char *from, struct error *error);

/* Opens path as a trace. options: for an import (convert/formats/reading/import.h). Returns 0, or -1 with error, also
   for a workload, which can't become a trace. */
int input_open(struct trace_reader **reader, const char *path, const struct format *format,
               const struct import_options *options, struct error *error);

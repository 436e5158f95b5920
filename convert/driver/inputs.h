/* SPDX-License-Identifier: MIT */
/* Files that convert is given, whatever they hold, as traces. A foreign recording is imported into a temporary trace.

   Not its job: what a file is (convert/formats/formats.h). Not thread-safe. */
#pragma once

#include "convert/formats/formats.h"
#include "core/trace/read/trace_read.h"

/* Where to read path from: "-" is a regular file once input_format has looked at it. */
const char *input_path(const char *path);

/* The format of the file at path: what it holds, unless the user names another (from; NULL: none). NULL with error. */
const struct format *input_format(const char *path, const char *from, struct error *error);

/* Opens path as a trace. options: of an import (convert/formats/reading/import.h). Returns 0, or -1 with error: also if
   it is a workload, of which no trace can be made. */
int input_open(struct trace_reader **reader, const char *path, const struct format *format,
               const struct import_options *options, struct error *error);

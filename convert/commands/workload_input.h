/* SPDX-License-Identifier: MIT */
/* Opens an input file as a workload. A trace, or a file that can be imported, is compiled into a temporary workload.
   Not thread-safe. */
#pragma once

#include "convert/commands/options.h"
#include "core/files/temporary_file.h"
#include "core/workload/workload_read.h"

struct workload_input {
  struct workload workload;
  struct temporary_file compiled;
};

/* Opens options->in. An illegal history is reported on stderr. Returns 0, or -1 with error; workload_input_close in
   either case. */
int workload_input_open(struct workload_input *input, const struct options *options, struct error *error);
void workload_input_close(struct workload_input *input);

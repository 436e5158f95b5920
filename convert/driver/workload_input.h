/* SPDX-License-Identifier: MIT */
/* A file that convert is given as a workload: opened if it is one, compiled into a temporary one if it can be made a
   trace of. Not thread-safe. */
#pragma once

#include "convert/driver/options.h"
#include "core/files/temporary_file.h"
#include "core/workload/workload_read.h"

struct workload_input {
  struct workload workload;
  struct temporary_file compiled;
};

/* Opens options->in. A history that is not legal is told of on stderr. Returns 0, or -1 with error;
   workload_input_close in either case. */
int workload_input_open(struct workload_input *input, const struct options *options, struct error *error);
void workload_input_close(struct workload_input *input);

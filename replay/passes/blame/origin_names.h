/* SPDX-License-Identifier: MIT */
/* The origins file in the parent: checked completely, with its JSON as an object.

   Job: refuse a file that is damaged or another workload's, with its name and the offset. Not its job: the tables that
   the engine reads (replay/passes/blame/births.h). */
#pragma once

#include "core/workload/origins.h"

#include <jansson.h>

struct origin_names {
  int fd;       /* -1: no origins file */
  json_t *json; /* sites, functions and marks are arrays with as many entries as the tables */
};

/* path NULL: no file. Returns 0, or -1 with error; call origin_names_close in either case. */
int origin_names_open(struct origin_names *names, const char *path, const struct workload_header *workload,
                      struct error *error);
void origin_names_close(struct origin_names *names);

/* SPDX-License-Identifier: MIT */
/* A file without a name, so that nothing remains however the run ends.

   It is in TMPDIR (/tmp if that is not set), which needs as much room as the file. Not thread-safe. */
#pragma once

#include "core/base/error.h"

struct temporary_file {
  char path[32]; /* it can be opened by this path while fd is open */
  int fd;        /* for reading and writing; -1: none */
};

/* Returns 0, or -1 with error; then fd is -1. */
int temporary_file_open(struct temporary_file *file, struct error *error);

/* Does nothing where fd is -1. */
void temporary_file_close(struct temporary_file *file);

/* Reads from fd up to its end into a new temporary file: for input that must be read twice. name: of the input, in
   errors. Returns 0, or -1 with error. */
int temporary_file_copy(struct temporary_file *file, int fd, const char *name, struct error *error);

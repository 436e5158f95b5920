/* A file that appears whole or not at all: written under a temporary name beside its place, renamed when it is
   complete.

   A path that exists and is no regular file (/dev/null, a pipe) is written directly. Not thread-safe. */
#ifndef CONVERT_OUTPUT_FILE_H
#define CONVERT_OUTPUT_FILE_H

#include "trace/error.h"

#include <stdbool.h>

struct output_file {
  char *path;
  char *temporary; /* where to write; equal to path where it is written directly */
  bool direct;
};

/* Chooses the temporary name and proves that it can be created. Returns 0, or -1 with error. */
int output_file_begin(struct output_file *file, const char *path, struct trace_error *error);

/* Puts the file in its place. Returns 0, or -1 with error; the temporary file is gone either way. */
int output_file_commit(struct output_file *file, struct trace_error *error);

/* Removes what was written. */
void output_file_abort(struct output_file *file);

#endif

/* SPDX-License-Identifier: MIT */
/* A file that appears whole or not at all: written under a temporary name beside its place, renamed when it is
   complete.

   A path that exists and is no regular file (/dev/null, a pipe) is written directly. Not thread-safe. */
#pragma once

#include "core/base/error.h"

#include <stdbool.h>
#include <stdio.h>

/* A stream, and the name that errors give it. */
struct output_stream {
  FILE *file;
  const char *name;
};

struct output_file {
  char *path;
  char *temporary; /* where to write; equal to path where it is written directly */
  bool direct;
};

/* Chooses the temporary name and proves that it can be created. Returns 0, or -1 with error. */
int output_file_begin(struct output_file *file, const char *path, struct error *error);

/* Puts the file in its place if result is 0, else removes what was written, and an error that names the temporary file
   names the path. Returns result, or -1 with error if it can't be put there. */
int output_file_end(struct output_file *file, int result, struct error *error);

/* The same with a stream open on it; a path of "-" is standard output, for which file is not used. */
int output_stream_begin(struct output_stream *stream, struct output_file *file, const char *path, struct error *error);
int output_stream_end(const struct output_stream *stream, struct output_file *file, int result, struct error *error);

/* From here on SIGINT, SIGTERM and SIGHUP remove the file that was begun last before they end the process: an
   interrupted run leaves nothing half done behind. */
void output_file_guard(void);

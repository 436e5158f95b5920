/* SPDX-License-Identifier: MIT */
/* Files of any content that a run leaves behind complete, or not at all.

   An output file is written under a random new name in the same folder, and renamed when it is complete; a path that
   exists and is not a regular file (/dev/null, a pipe) is written directly. A temporary file has no name, so nothing
   remains however the run ends; it is in TMPDIR (/tmp if that is not set), which needs as much room as the file. A
   symbolic link that another user owns, except root, is not followed. Not thread-safe. */
#pragma once

#include "core/base/error.h"

#include <stdbool.h>
#include <stdio.h>

/* Opens a file for writing, close-on-exec, and makes it if it does not exist. flags: of open, beside. Where path itself
   is a symbolic link or leads to a named pipe, their owners must be this process's user or root (EACCES). Returns the
   descriptor, or -1 with errno set. */
int output_open(const char *path, int flags);

/* A stream, and its name in errors. */
struct output_stream {
  FILE *file;
  const char *name;
};

struct output_file {
  char *path, *partial; /* partial: the file's name until it is complete; NULL: path is written directly */
  int fd;
  char opened[32]; /* where to write: the file that is open as fd */
};

/* Creates and opens the file. Returns 0, or -1 with error. */
int output_file_begin(struct output_file *file, const char *path, struct error *error);

/* Renames the file to its path if result is 0. Else removes it, and replaces `opened` in the error by the path. Returns
 * result, or -1 with error if the rename fails. */
int output_file_end(struct output_file *file, int result, struct error *error);

/* The same with a stream open on the file; a path of "-" is standard output, for which file is not used. */
int output_stream_begin(struct output_stream *stream, struct output_file *file, const char *path, struct error *error);
int output_stream_end(const struct output_stream *stream, struct output_file *file, int result, struct error *error);

/* From now on SIGINT, SIGTERM and SIGHUP remove the file that was begun last before they end the process, so that an
   interrupted run leaves no incomplete file. */
void output_file_guard(void);

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

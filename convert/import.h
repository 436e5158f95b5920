/* Importers: foreign recordings to a trace. Each is one file whose header comment shows a sample of the input and what
   it becomes.

   They are strict: the first line that is not of the format is an error "FILE:LINE: what", and nothing is invented:
   what the format can't tell stands in INFO's `lacks`. Memory is O(threads). Not thread-safe. */
#ifndef CONVERT_IMPORT_H
#define CONVERT_IMPORT_H

#include "trace/error.h"

/* Reads path ("-": standard input) and writes the trace to out. Returns 0, or -1 with error; then out is incomplete. */
int import_text(const char *path, const char *out, struct trace_error *error);
int import_android(const char *path, const char *out, struct trace_error *error);

/* Could the file's first line be of that format? */
int import_text_recognises(const char *line);
int import_android_recognises(const char *line);

#endif

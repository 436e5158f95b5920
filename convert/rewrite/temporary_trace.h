/* A trace between two steps of a conversion: an unlinked file, so that nothing stays behind however the run ends.

   It lies in TMPDIR (/tmp if that is not set), which needs as much room as the trace. Not thread-safe. */
#ifndef CONVERT_REWRITE_TEMPORARY_TRACE_H
#define CONVERT_REWRITE_TEMPORARY_TRACE_H

#include "core/trace/read/trace_read.h"

struct temporary_trace {
  char path[32]; /* to be written to; good until it is closed */
  int fd;
};

/* Returns 0, or -1 with error. */
int temporary_trace_begin(struct temporary_trace *trace, struct trace_error *error);

/* Opens what was written, or gives it up; the file is gone either way as soon as the reader is closed. */
int temporary_trace_open(struct temporary_trace *trace, struct trace_reader **reader, struct trace_error *error);
void temporary_trace_abort(struct temporary_trace *trace);

#endif

#include "convert/rewrite/temporary_trace.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int temporary_trace_begin(struct temporary_trace *trace, struct trace_error *error) {
  const char *directory = getenv("TMPDIR");
  if (!directory || !directory[0])
    directory = P_tmpdir;
  trace->fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (trace->fd < 0) { /* file systems without such files */
    char name[4096];
    int length = snprintf(name, sizeof name, "%s/heaptape-XXXXXX", directory);
    trace->fd = length < (int)sizeof name ? mkostemp(name, O_CLOEXEC) : -1;
    if (trace->fd < 0)
      return trace_error_errno(error, directory, "can't make a temporary file");
    unlink(name);
  }
  snprintf(trace->path, sizeof trace->path, "/proc/self/fd/%d", trace->fd);
  return 0;
}

int temporary_trace_open(struct temporary_trace *trace, struct trace_reader **reader, struct trace_error *error) {
  int result = trace_reader_open(reader, trace->path, error);
  temporary_trace_abort(trace);
  return result;
}

void temporary_trace_abort(struct temporary_trace *trace) {
  if (trace->fd >= 0)
    close(trace->fd);
  trace->fd = -1;
}

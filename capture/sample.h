/* The memory of another process, as the kernel tells it: one row of a SAMPLES block at a time.

   Not its job: when to sample, and the stamp. Invariants: reads two files of /proc and nothing else; never blocks the
   process. */
#ifndef CAPTURE_SAMPLE_H
#define CAPTURE_SAMPLE_H

#include "trace/trace_write.h"

#include <stdbool.h>

struct sampler {
  int status_fd, stat_fd; /* -1: can't be had */
  bool begun, sandboxed;  /* sandboxed: the main thread's seccomp state is not that of the first sample */
  unsigned long seccomp_mode, seccomp_filters;
};

void sampler_open(struct sampler *sampler, int pid);
void sampler_close(struct sampler *sampler);

/* Fills all but the stamp; quantities that can't be had are TRACE_SAMPLE_MISSING. False: the process is gone. */
bool sampler_read(struct sampler *sampler, struct trace_sample *sample);

#endif

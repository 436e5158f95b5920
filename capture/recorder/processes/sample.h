/* SPDX-License-Identifier: MIT */
/* The memory of another process as /proc shows it: one row of a SAMPLES block at a time.

   Not its job: the stamp. Invariants: reads two files of /proc and nothing else; never blocks the process. */
#pragma once

#include "core/trace/write/trace_write.h"

#include <stdbool.h>

/* The budget is shared: sampling all processes takes at most 1 % of a core, in a process's first second at most 5 %. */
struct sampler {
  uint64_t opened_ns, next_ns;
  uint64_t cost_ns;       /* processor time of one look, averaged */
  int status_fd, stat_fd; /* -1: cannot be read */
  bool begun, sandboxed;  /* sandboxed: the main thread's seccomp state is not that of the first sample */
  unsigned long seccomp_mode, seccomp_filters;
};

void sampler_open(struct sampler *sampler, int pid);
void sampler_close(struct sampler *sampler);

/* sampler_is_due: is it time for the next sample? sampler_plan: after a sample, sets the time of the next. base_ns: the
   default period; a tenth of it in the process's first second. */
bool sampler_is_due(const struct sampler *sampler, uint64_t now_ns);
void sampler_plan(struct sampler *sampler, uint64_t now_ns, uint64_t base_ns, uint32_t processes);

/* Fills all but the stamp; quantities that cannot be read are TRACE_SAMPLE_MISSING. False: the process is gone. */
bool sampler_read(struct sampler *sampler, struct trace_sample *sample);

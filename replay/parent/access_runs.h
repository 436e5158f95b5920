/* SPDX-License-Identifier: MIT */
/* The parent's half of the accesses pass: three runs of one workload, one after the other.

   Job: check the recorded accesses; run the engine with all accesses on one line and without an allocator (its own
   share), then on the allocator with independent and with dependent accesses (replay/accesses/perform.h). Not its job:
   subtracting the first run from the others (readers of results do that, as each figure has its own noise).
   Single-threaded. */
#pragma once

#include "replay/parent/access_stream.h"
#include "replay/parent/run.h"

struct access_runs {
  struct access_stream stream;
  struct run own_share, independent, dependent;
};

/* Returns 0, or -1 with error filled in. Call access_runs_free in either case. */
int access_runs_make(struct access_runs *runs, const struct run_request *request, struct error *error);
void access_runs_free(struct access_runs *runs);

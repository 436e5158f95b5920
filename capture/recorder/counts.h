/* SPDX-License-Identifier: MIT */
/* What a running recording has counted so far, for `heaptape top`: replies of the control socket.

   Job: counts of calls, requests and missing calls by process and thread; what lives, and which stacks acquire, as
   estimates with their variances (live_sample.h, site_sample.h); the modules that contain the stacks' code. Not its
   job: rates and names, which the watcher makes. Invariants: the rings are drained first, so a call that had returned
   before the request is counted; nothing is changed in the trace. Allocates with malloc; one thread, the serving
   one. */
#pragma once

#include "capture/recorder/collector_state.h"

#include <jansson.h>

/* Counts of all processes (only: NULL), as many as fit into a reply, or of one. Threads and sites are given only where
   one process is requested, or there is only one. NULL: no memory. */
json_t *counts_of(struct collector *collector, struct recorded_process *only);

/* The modules mapped in the process, as far as the trace has them. NULL: no memory. */
json_t *counts_modules(const struct recorded_process *process);

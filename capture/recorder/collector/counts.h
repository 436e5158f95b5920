/* SPDX-License-Identifier: MIT */
/* What a running recording has counted so far, for those who watch it (`heaptape top`): replies of the control socket.

   Job: counts of calls, requests and missing calls by process and thread; what lives, and which stacks acquire, as
   estimates with their variances (live_sample.h, site_sample.h); the modules that stacks lie in. Not its job: rates and
   names, which the watcher makes. Invariants: the rings are drained first, so a call that had returned before the
   request is counted; nothing is changed in the trace. Allocates with malloc; one thread, the one that serves. */
#pragma once

#include "capture/recorder/collector/collector_state.h"

#include <jansson.h>

/* Of all processes, as many as a reply holds; threads and sites only where one is asked for, or there is one alone.
   NULL: no memory. */
json_t *counts_of(struct collector *collector, struct recorded_process *only);

/* What is mapped in the process, as far as the trace has it. NULL: no memory. */
json_t *counts_modules(const struct recorded_process *process);

/* SPDX-License-Identifier: MIT */
/* Attaching to the collector: a process requests to be recorded, and maps the memory that it receives.

   Not its job: the process's state (process.h), threads and records (producer.h). Invariants: no descriptor is kept
   between calls; failure ends the recording, never the host. Everything here keeps errno and is never a cancellation
   point. */
#pragma once

#include "capture/host/process.h"

/* The process, attached if that can be done; NULL if it is not to be recorded. Call with signals blocked and not
   locked. */
struct process *attach_process(void);

/* Adds a region; called with the process locked. False: the collector provides none. */
bool attach_region(struct process *process);

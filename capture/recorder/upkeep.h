/* SPDX-License-Identifier: MIT */
/* What a recording of several days needs: bursts within a budget of CPU time (--budget), and rotating files (--rotate).

   Job: measuring what recording costs, pausing all processes between bursts, beginning each trace's next file in time,
   deleting old ones. Not its job: when a burst is due (continuous/budget.h), names (continuous/file_set.h), the files
   (process/recorded_process.h). A part of the collector; one thread, the serving one. Allocates with malloc. */
#pragma once

#include "capture/recorder/collector_state.h"

/* Called once, before anything is served. */
void upkeep_begin(struct collector *collector);

/* Enforces the budget and the file size. Cheap; called at each pass. */
void upkeep_serve(struct collector *collector);

/* How long the collector may sleep, and the time between samples of a program's memory; `otherwise`: their values
   without upkeep. */
uint64_t upkeep_sleep_ns(const struct collector *collector, uint64_t otherwise);
uint64_t upkeep_sample_ns(const struct collector *collector, uint64_t otherwise);

/* Replaces path, which has room for `bytes`, by the path of the trace's first file, and *info, which malloc returned,
   by the INFO of this file. Returns 0, or -1: out of memory. */
int upkeep_first_file(const struct collector *collector, struct process_upkeep **upkeep, char *path, size_t bytes,
                      char **info);

/* The process is recorded from now on; takes upkeep. */
void upkeep_process_begins(struct collector *collector, struct recorded_process *process,
                           struct process_upkeep *upkeep);

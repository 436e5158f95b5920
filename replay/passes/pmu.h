/* SPDX-License-Identifier: MIT */
/* The processor's own counters over the streams of a bare pass: instructions, cycles, cache, TLB and branch misses.

   Job: count them in user space, all threads together, where perf_event_open allows it; elsewhere, record why not. Not
   its job: single calls (a reading costs more than a call; callgrind counts those, instructions.h), subtracting the
   engine's share (the results have the same counts of the null allocator's run, too). Invariants: opened before the
   first thread, so that each thread inherits them; no cost while streams run. PMU_TASK_CLOCK needs no PMU: it shows
   that counting as such works. Counters that had to take turns are scaled up, and `share` is the part of the time in
   which they counted.
 */
#pragma once

#include "replay/passes/pmu_count.h"

/* Returns the name in results. */
const char *pmu_event_name(enum pmu_event event);

/* Opens all counters, then starts them. Each keeps its own error. */
void pmu_begin(void);

/* Stops and reads them. Call when all threads have ended. */
void pmu_end(struct pmu_count counts[PMU_EVENTS]);

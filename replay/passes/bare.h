/* SPDX-License-Identifier: MIT */
/* The bare pass: CPU time of whole streams, with nothing measured at each op, and the processor's own counters over
   them: instructions, cycles, cache, TLB and branch misses. With the null allocator: what the engine itself costs.

   Job: count in user space, all threads together, where perf_event_open allows it; elsewhere, record why not. Not its
   job: single calls (a reading costs more than a call; the instructions pass counts those), subtracting the engine's
   share (the results have the same counts of the null allocator's run, too). Invariants: counters are opened before the
   first thread, so that each thread inherits them; no cost while streams run. PMU_TASK_CLOCK needs no PMU: it shows
   that counting as such works. Counters that had to take turns are scaled up, and `share` is the part of the time in
   which they counted. */
#pragma once

#include "replay/parent/run.h"

/* struct pass, launch: measures the engine's own cost on the beginning of this workload first, unless the spec has it.
 */
int bare_launch_with_engine_cost(struct run *run, const struct run_spec *spec, struct error *error);

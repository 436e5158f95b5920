/* SPDX-License-Identifier: MIT */
/* The bare pass: CPU time of whole streams, with nothing measured at each op, and the processor's own counters over
   them: instructions, cycles, cache, TLB and branch misses. With the null allocator: what the engine itself costs.

   Job: count in user space, all threads together, where perf_event_open allows it; elsewhere, record why not. Not its
   job: single calls (a reading costs more than a call; the instructions pass counts those), subtracting the engine's
   share (the results have the same counts of the null allocator's run, too). Invariants: counters are opened before the
   first thread, so that each thread inherits them (core/system/pmu.h); no cost while streams run. */
#pragma once

#include "replay/parent/run.h"

/* struct pass, launch: measures the engine's own cost on the beginning of this workload first, unless the spec has it.
 */
int bare_launch_with_engine_cost(struct run *run, const struct run_spec *spec, struct error *error);

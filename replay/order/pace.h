/* SPDX-License-Identifier: MIT */
/* The paced order: ops start no sooner than they did in the recording, at SPEED times its pace.

   Job: sleep until an op's time, record how late it was. Not its job: who waits for whom (order.h): the WAITs hold as
   under `causal`. Times are the workload's TIME words; between them ops run as fast as they can. A thread that is late
   makes up for it only by sleeping less before its next time. */
#pragma once

#include "replay/state/engine_state.h"

/* Does the workload have recorded times? */
bool pace_times_known(void);

/* Before the first op. speed: recorded seconds per second, > 0. Returns 0, or -1: the workload has no recorded times.
 */
int pace_setup(double speed);

/* The replay begins now. */
void pace_begin(void);

/* The next op of self was recorded at time_ns. */
void pace_wait(struct replay_thread *self, uint64_t time_ns);

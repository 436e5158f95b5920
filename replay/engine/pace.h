/* SPDX-License-Identifier: MIT */
/* The paced order: ops start no sooner than they did in the recording, at SPEED times its pace.

   Job: sleep until an op's time, record how late the op was. Not its job: who waits for whom (order.h): WAITs apply as
   under `causal`. Times are the workload's TIME words; between them ops run as fast as they can. A thread that is late
   makes up for it only by sleeping less before its next time. */
#pragma once

#include "replay/engine/state.h"

/* Returns whether the workload has recorded times. */
bool pace_times_known(void);

/* Call before the first op. speed: recorded seconds per second, > 0. Returns 0, or -1: there are no recorded times. */
int pace_setup(double speed);

/* The replay begins now. */
void pace_begin(void);

/* The next op of self was recorded at time_ns. */
void pace_wait(struct replay_thread *self, uint64_t time_ns);

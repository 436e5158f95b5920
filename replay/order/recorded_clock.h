/* SPDX-License-Identifier: MIT */
/* The clock that the allocator reads goes as it went in the recording, so that what it does by time (mostly giving
   memory back) it does where it would have done it in the program. A replay is many times faster than life, or slower,
   under a memory pass.

   Job: answer the allocator's clock_gettime, as the executable's own definition of it comes first. Not its job:
   sleeping until a time (pace.h); gettimeofday, from which deadlines of sleeping background threads are computed.
   Invariants: time starts as the real clock of the same kind and never runs back; it moves only with recorded time, so
   that how fast the replay is does not matter; clocks of processor time, and all that the engine itself asks, are real;
   so is everything until recorded_clock_begin: what an allocator noted of the time before the first op differs from run
   to run (jemalloc's purges shift by some milliseconds). */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* First thing in main, in any process: finds the real function. */
void recorded_clock_setup(void);

/* From now on the clock stands, until recorded time moves it. Not where a recorder is loaded, as it stamps by the
   clock: returns false, and the clock stays real. */
bool recorded_clock_begin(void);

/* Of the op done next, in ns since the recording began. */
extern _Atomic uint64_t recorded_clock_ns;

/* An op that was recorded at time_ns is next. Any thread. */
static inline void recorded_clock_advance(uint64_t time_ns) {
  uint64_t now = atomic_load_explicit(&recorded_clock_ns, memory_order_relaxed);
  while (now < time_ns && !atomic_compare_exchange_weak(&recorded_clock_ns, &now, time_ns))
    ;
}

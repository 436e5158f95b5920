/* SPDX-License-Identifier: MIT */
/* Makes the clock that the allocator reads advance as it did in the recording, so that what the allocator does by time
   (mostly giving memory back) happens at the same op as in the program. A replay is many times faster than the program
   or, in a memory pass, slower.

   Job: answer the allocator's clock_gettime: the dynamic linker finds the executable's definition first. Not its job:
   sleeping until a time (pace.h); gettimeofday, from which deadlines of sleeping background threads are computed.
   Invariants: time starts at the real clock of the same kind and never runs back; it advances only with recorded time,
   so that the replay's speed does not matter; clocks of processor time, and all clocks that the engine itself reads,
   are real. All clocks are real until recorded_clock_begin: the times that an allocator noted before the first op
   differ from run to run (jemalloc's purges shift by some milliseconds). */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Finds the real function. Call first in main, in any process. */
void recorded_clock_setup(void);

/* From now on only recorded time moves the clock. Where a recorder is loaded, which needs the clock for its stamps,
   returns false, and the clock stays real. */
bool recorded_clock_begin(void);

/* The time of the next op, in ns since the recording began. */
extern _Atomic uint64_t recorded_clock_ns;

/* The next op was recorded at time_ns. Any thread may call this. */
static inline void recorded_clock_advance(uint64_t time_ns) {
  uint64_t now = atomic_load_explicit(&recorded_clock_ns, memory_order_relaxed);
  while (now < time_ns && !atomic_compare_exchange_weak(&recorded_clock_ns, &now, time_ns))
    ;
}

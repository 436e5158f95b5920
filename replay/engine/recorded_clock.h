/* SPDX-License-Identifier: MIT */
/* Makes the clock that the allocator reads advance as it did in the recording, so that what the allocator does by time
   (mostly giving memory back) happens at the same op as in the program. A replay is many times faster than the program
   or, in a memory pass, slower.

   Job: answer the allocator's clock_gettime: the dynamic linker finds the executable's definition first; let the timed
   waits of its background threads (pthread_cond_timedwait) last as long by that clock. Not its job: sleeping until a
   time; gettimeofday, from which deadlines of such waits are computed; other kinds of sleeping.
   Invariants: time starts at the real clock of the same kind and never runs back; it advances only with recorded time,
   so that the replay's speed does not matter; clocks of processor time, CLOCK_MONOTONIC_RAW, and all clocks that the
   engine itself reads, are real. Before the first op, the allocator's clocks stand at the whole second in which they
   were first read, and follow from there: so what an allocator computes from them is the same in every run. Where a
   workload has no times, they advance evenly, by RECORDED_CLOCK_STEP_NS for each op. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A million calls a second. */
enum { RECORDED_CLOCK_STEP_NS = 1000 };

/* Finds the real function. Call first in main, in any process. */
void recorded_clock_setup(void);

/* All clocks are real from now on. */
void recorded_clock_stay_real(void);

/* False: a recorder is loaded, which needs the clock for its stamps: it is real. */
bool recorded_clock_possible(void);

/* The time of the next op, in ns since its first replay began. */
extern _Atomic uint64_t recorded_clock_ns;

/* When the recording begins, on that clock: later than 0 once it was replayed before. */
extern uint64_t recorded_clock_origin_ns;

/* The recording is to be replayed again: its time goes on from where the clock stands. No thread replays. */
static inline void recorded_clock_begin_again(void) {
  recorded_clock_origin_ns = atomic_load(&recorded_clock_ns);
}

/* The next op was recorded at time_ns. Any thread may call this. */
static inline void recorded_clock_advance(uint64_t time_ns) {
  time_ns += recorded_clock_origin_ns;
  uint64_t now = atomic_load_explicit(&recorded_clock_ns, memory_order_relaxed);
  while (now < time_ns && !atomic_compare_exchange_weak(&recorded_clock_ns, &now, time_ns))
    ;
}

/* From now on the allocator's timed waits end by this clock, not by the real one. */
void recorded_clock_waits_follow(void);

/* Returns whether a timed wait of the allocator ends before time_ns (of recorded_clock_advance): when the first does.
   None does once waking took WAKE_TOTAL_NS of real time: a thread may wake every millisecond of a recorded day. One
   thread calls this and recorded_clock_wake at a time. */
bool recorded_clock_wait_ends(uint64_t time_ns, uint64_t *end_ns);

/* The program idled until the next op: threads of the allocator that have started, or that the ops have woken, get the
   time to begin their waits, for WAKE_LIMIT_NS at most, WAKE_PAUSES times at most. */
void recorded_clock_pause(void);

/* Advances to end_ns, and gives the threads whose waits end by then the time to do what they waited for: until they
   wait again or sleep, for WAKE_LIMIT_NS at most. */
void recorded_clock_wake(uint64_t end_ns);

enum { WAKE_LIMIT_NS = 1000000000, WAKE_PAUSES = 1000, IDLE_GAP_NS = 50000000 };
#define WAKE_TOTAL_NS UINT64_C(30000000000)

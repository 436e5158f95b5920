/* SPDX-License-Identifier: MIT */
/* What the time pass keeps of each call: histograms by kind of call and size class, the slowest calls, and the cost of
   timing, measured all through the run.

   Job: record the cycles of a call. Invariants: one writer per struct timing; an empty call is timed right before every
   EMPTY_EVERYth call, so that caches, clock rate and neighbours are the same; a call in which the thread was preempted
   is counted separately, as other threads used its cycles; one in which the thread itself slept, in a lock of the
   allocator, is not. All-zero memory is an empty struct. No allocation.

   The cost of timing is that of readings of the counter around an empty call, not around nothing: between fences a call
   costs about 6 cycles that overlap with other work in a program. Without the call, the sum of timed calls was 1.8
   times their cost in the bare pass. The mean is used, as a counter may advance in steps (26 cycles on one AMD server);
   then the medians of a call and of nothing are both whole steps. How the readings themselves are made, and why:
   call.h. */
#pragma once

#include "core/base/assert.h"
#include "core/base/os.h"
#include "replay/engine/result.h"

#include <stdint.h>

/* A log-linear histogram of cycle counts, fixed in size, for the engine's hot path.

   Job: count values and compute percentiles. Invariants: values below 64 are exact; above, a bucket's width is at most
   1/32 of its lower bound; values of 2^40 and more count in the last bucket. All-zero memory is an empty histogram. Not
   libhdrhistogram, as that is not packaged for Debian 12 and allocates. Safe anywhere: no allocation, no I/O. */

enum {
  HISTOGRAM_SUB_BITS = 5, /* 32 buckets to the octave */
  HISTOGRAM_VALUE_BITS = 40,
  HISTOGRAM_BUCKETS = (HISTOGRAM_VALUE_BITS - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS,
};

struct histogram {
  uint64_t counts[HISTOGRAM_BUCKETS];
};

/* Returns the bucket of a value. Values 0 .. 63 have a bucket each; 64 and 65 share the next one. */
static inline unsigned histogram_bucket(uint64_t value) {
  if (value >= (uint64_t)1 << HISTOGRAM_VALUE_BITS)
    return HISTOGRAM_BUCKETS - 1;
  if (value < (2u << HISTOGRAM_SUB_BITS))
    return (unsigned)value;
  unsigned shift = 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
  return (shift << HISTOGRAM_SUB_BITS) + (unsigned)(value >> shift);
}

static inline void histogram_add(struct histogram *histogram, uint64_t value) {
  HT_ASSERT(histogram_bucket(value) < HISTOGRAM_BUCKETS);
  histogram->counts[histogram_bucket(value)]++;
}

/* Returns the smallest value of the bucket. */
uint64_t histogram_lower(unsigned bucket);

void histogram_merge(struct histogram *into, const struct histogram *from);

/* Returns the value that a share (0 .. 1) of all values does not exceed: the middle of its bucket; 0 for an empty
   histogram. */
uint64_t histogram_percentile(const struct histogram *histogram, double share);

enum { EMPTY_CYCLES = 1024 };

/* All-zero memory is an empty struct. */
struct empty_calls {
  uint64_t counts[EMPTY_CYCLES]; /* by cycles */
  uint64_t longer;
};

static inline void empty_calls_add(struct empty_calls *empty, uint64_t cycles) {
  if (cycles < EMPTY_CYCLES)
    empty->counts[cycles]++;
  else
    empty->longer++;
}

void empty_calls_merge(struct empty_calls *into, const struct empty_calls *from);

/* Takes 20,001 readings in a few milliseconds: for runs too short to have enough among their calls. */
void empty_calls_take(struct empty_calls *empty);

struct overhead {
  double mean_cycles, standard_error_cycles;
  double deviation_cycles; /* of single readings from one another: their standard deviation */
  uint64_t samples;
  uint64_t left_out;    /* readings of more than twice the median: interrupted */
  uint64_t step_cycles; /* greatest common divisor of all readings: the counter's resolution */
};

/* Returns zeroes if there are no samples. */
struct overhead empty_calls_overhead(const struct empty_calls *empty);

/* Ids of calls are below TIMED_CALLS; the data kept for each call is too large for CALL_LIMIT of them. */
enum { TIMED_CALLS = 58, SLOW_CALLS = 64 };
#define CALL(id, ident, name, acquires, released, size, param)                                                         \
  _Static_assert(id < TIMED_CALLS, "TIMED_CALLS is above all ids");
#include "core/trace/calls.def"

/* Cycles as read: the cost of reading is not yet subtracted. They are of those of `count` calls that were not
   preempted; preempted ones are only counted. */
struct replay_call {
  uint64_t count, preempted, cycles_total, cycles_max;
  struct histogram histogram;
};

struct slow_call {
  uint64_t cycles, op; /* op: number in its thread */
  uint64_t size_bytes;
  uint32_t thread;
  uint8_t call;
};

/* Writing to new objects, timed for some of them. */
struct replay_touching {
  uint64_t objects, sampled, cycles;
};

/* Calls in which the thread was off its processor: because other threads ran (calls, cycles; not in the histograms),
   and because it slept or took a signal (slept; in the histograms). */
struct replay_preempted {
  uint64_t calls, cycles, slept;
};

/* Primes, so that they do not keep step with a workload that repeats itself. */
enum { EMPTY_EVERY = 61, TOUCH_EVERY = 31 };

struct timing {
  struct replay_call calls[TIMED_CALLS][SIZE_CLASSES];
  struct empty_calls empty;
  struct replay_touching touching;
  struct replay_preempted preempted;
  struct slow_call slowest[SLOW_CALLS]; /* in no order; cycles 0: none yet */
  uint64_t slow_limit;                  /* a call of more cycles is among the slowest so far */
  uint32_t slow_least;                  /* index of the fastest of them */
  uint32_t until_empty, until_touch;
  volatile uint64_t *switch_word;    /* of the current thread (core/base/os_switch.h) */
  uint64_t no_switch_word;           /* used where the thread has none */
  uint64_t involuntary;              /* context switches of the current thread, as last read */
  const struct watermark *completed; /* ops that the thread has done */
  uint32_t thread;
};

/* The value that arms a switch word; 0: no thread has one. Set by timing_setup. */
extern uint64_t timing_switch_armed;

/* Call once, before the first thread. Returns whether preemption can be detected. */
bool timing_setup(void);

/* The calling thread is the writer from now on, and replays that thread of the workload. */
void timing_begin_thread(struct timing *timing, uint32_t thread, const struct watermark *completed);

/* Out of line, as they are rare. */
void timing_take_empty(struct timing *timing);
void timing_was_off(struct timing *timing);
bool timing_was_preempted(struct timing *timing, uint64_t cycles);
void timing_note_slow(struct timing *timing, uint8_t call, uint64_t bytes, uint64_t cycles);

/* What a program does to its caches between two calls of the allocator: other lines displace the allocator's. Reads
   that many cache lines of a buffer, cyclically, line after line. Each thread has its own, in shared memory, so that it
   does not count as the allocator's, and larger than the second-level cache. Does nothing if there is no memory for
   it. */
enum { DISTURB_BYTES = 8 << 20, DISTURB_LINE_BYTES = 64 };
void disturb(uint64_t lines);

/* Merges the slowest calls of both into the first. */
void timing_merge_slowest(struct slow_call into[SLOW_CALLS], const struct slow_call from[SLOW_CALLS]);

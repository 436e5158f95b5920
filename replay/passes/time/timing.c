/* SPDX-License-Identifier: MIT */
#include "replay/passes/time/timing.h"

#include "core/base/os_switch.h"
#include "replay/calls/call.h"

#include <math.h>
#include <sys/resource.h>

enum { READINGS = 20001 };

uint64_t timing_switch_armed;

bool timing_setup(void) {
  timing_switch_armed = os_switch_armed();
  if (timing_switch_armed != 0 && os_switch_word())
    return true;
  timing_switch_armed = 1; /* written to words that the kernel does not clear */
  return false;
}

static uint64_t involuntary_switches(void) {
  struct rusage usage = {0};
  getrusage(RUSAGE_THREAD, &usage);
  return (uint64_t)usage.ru_nivcsw;
}

void timing_begin_thread(struct timing *timing, uint32_t thread, const struct watermark *completed) {
  timing->thread = thread;
  timing->completed = completed;
  timing->switch_word = os_switch_word();
  if (!timing->switch_word)
    timing->switch_word = &timing->no_switch_word;
  timing->involuntary = involuntary_switches();
}

void timing_take_empty(struct timing *timing) {
  timing->until_empty = EMPTY_EVERY - 1;
  uint64_t cycles = 0;
  call_nothing(&cycles);
  empty_calls_add(&timing->empty, cycles);
}

/* Between calls the thread was preempted, or slept until its turn. */
void timing_was_off(struct timing *timing) {
  timing->involuntary = involuntary_switches();
}

/* The word shows that the thread was off its processor, not why; the kernel counts involuntary switches separately. */
bool timing_was_preempted(struct timing *timing, uint64_t cycles) {
  uint64_t involuntary = involuntary_switches();
  bool preempted = involuntary != timing->involuntary;
  timing->involuntary = involuntary;
  if (preempted) {
    timing->preempted.calls++;
    timing->preempted.cycles += cycles;
  } else {
    timing->preempted.slept++;
  }
  return preempted;
}

static uint32_t least_of(const struct slow_call slowest[SLOW_CALLS]) {
  uint32_t least = 0;
  for (uint32_t index = 1; index < SLOW_CALLS; index++) {
    if (slowest[index].cycles < slowest[least].cycles)
      least = index;
  }
  return least;
}

void timing_note_slow(struct timing *timing, uint8_t call, uint64_t bytes, uint64_t cycles) {
  timing->slowest[timing->slow_least] = (struct slow_call){
      .cycles = cycles,
      .op = atomic_load_explicit(&timing->completed->value, memory_order_relaxed),
      .size_bytes = bytes,
      .thread = timing->thread,
      .call = call,
  };
  timing->slow_least = least_of(timing->slowest);
  timing->slow_limit = timing->slowest[timing->slow_least].cycles;
}

void timing_merge_slowest(struct slow_call into[SLOW_CALLS], const struct slow_call from[SLOW_CALLS]) {
  for (uint32_t index = 0; index < SLOW_CALLS; index++) {
    uint32_t least = least_of(into);
    if (from[index].cycles > into[least].cycles)
      into[least] = from[index];
  }
}

void empty_calls_merge(struct empty_calls *into, const struct empty_calls *from) {
  for (unsigned cycles = 0; cycles < EMPTY_CYCLES; cycles++)
    into->counts[cycles] += from->counts[cycles];
  into->longer += from->longer;
}

void empty_calls_take(struct empty_calls *empty) {
  /* The first half warms up caches and clock. */
  for (int reading = -READINGS; reading < READINGS; reading++) {
    uint64_t cycles = 0;
    call_nothing(&cycles);
    if (reading >= 0)
      empty_calls_add(empty, cycles);
  }
}

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static unsigned median(const struct empty_calls *empty, uint64_t total) {
  uint64_t seen = 0;
  unsigned cycles = 0;
  while (cycles < EMPTY_CYCLES - 1 && (seen += empty->counts[cycles]) <= total / 2)
    cycles++;
  return cycles;
}

struct overhead empty_calls_overhead(const struct empty_calls *empty) {
  struct overhead overhead = {0};
  uint64_t total = empty->longer;
  for (unsigned cycles = 0; cycles < EMPTY_CYCLES; cycles++)
    total += empty->counts[cycles];
  unsigned limit = 2 * median(empty, total);
  double sum = 0, squares = 0;
  for (unsigned cycles = 0; cycles < EMPTY_CYCLES && cycles <= limit; cycles++) {
    double count = (double)empty->counts[cycles];
    overhead.samples += empty->counts[cycles];
    sum += count * cycles;
    squares += count * cycles * cycles;
    if (empty->counts[cycles] > 0)
      overhead.step_cycles = greatest_common_divisor(overhead.step_cycles, cycles);
  }
  overhead.left_out = total - overhead.samples;
  if (overhead.samples > 1) {
    double samples = (double)overhead.samples, variance = (squares - sum * sum / samples) / (samples - 1);
    overhead.mean_cycles = sum / samples;
    overhead.deviation_cycles = sqrt(variance > 0 ? variance : 0);
    overhead.standard_error_cycles = overhead.deviation_cycles / sqrt(samples);
  }
  return overhead;
}

static __thread struct {
  const volatile uint8_t *buffer;
  uint32_t at;
} own;

void disturb(uint64_t lines) {
  if (!own.buffer && !(own.buffer = os_map(DISTURB_BYTES, true)))
    return;
  for (uint64_t line = 0; line < lines; line++) {
    (void)own.buffer[own.at];
    own.at = (own.at + DISTURB_LINE_BYTES) % DISTURB_BYTES;
  }
}

uint64_t histogram_lower(unsigned bucket) {
  if (bucket < (2u << HISTOGRAM_SUB_BITS))
    return bucket;
  unsigned shift = (bucket >> HISTOGRAM_SUB_BITS) - 1;
  return (uint64_t)(bucket - (shift << HISTOGRAM_SUB_BITS)) << shift;
}

void histogram_merge(struct histogram *into, const struct histogram *from) {
  for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
    into->counts[bucket] += from->counts[bucket];
}

uint64_t histogram_percentile(const struct histogram *histogram, double share) {
  uint64_t total = 0;
  for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
    total += histogram->counts[bucket];
  if (total == 0)
    return 0;
  uint64_t rank = (uint64_t)(share * (double)total);
  if (rank >= total)
    rank = total - 1;
  uint64_t seen = 0;
  unsigned bucket = 0;
  while ((seen += histogram->counts[bucket]) <= rank)
    bucket++;
  return (histogram_lower(bucket) + histogram_lower(bucket + 1) - 1) / 2;
}

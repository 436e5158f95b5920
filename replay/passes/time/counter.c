/* SPDX-License-Identifier: MIT */
#include "replay/passes/time/counter.h"

#include "core/base/os.h"
#include "replay/calls/null_allocator.h"

#include <math.h>
#include <stddef.h>

enum { READINGS = 20001 };

/* Called like an allocator's entry point: through a pointer that the compiler can't resolve. */
static void (*volatile empty_call)(void *object) = null_free;

void empty_calls_merge(struct empty_calls *into, const struct empty_calls *from) {
  for (unsigned cycles = 0; cycles < EMPTY_CYCLES; cycles++)
    into->counts[cycles] += from->counts[cycles];
  into->longer += from->longer;
}

void empty_calls_take(struct empty_calls *empty) {
  /* The first half warms up caches and clock. */
  for (int reading = -READINGS; reading < READINGS; reading++) {
    void (*call)(void *object) = empty_call;
    uint64_t begin = os_span_begin();
    call(NULL);
    uint64_t cycles = os_span_end() - begin;
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

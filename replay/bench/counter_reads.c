/* SPDX-License-Identifier: MIT */
/* The cost of a timed call's two counter readings, and the error of each way of making them. Prints a Markdown table;
   docs/measurements/replay.md has one, and counter.h the choice based on it.

   A call is a chain of dependent multiplications, so its true length is known from a loop of only that. Three errors
   are distinguished: of the call's own length; of unfinished work from before the window, which the window then counts;
   and of work begun in the call for which the window does not wait. */
#include "core/base/os.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 50001, EARLIER_STEPS = 100 };

static volatile uint64_t sink;

static inline __attribute__((always_inline)) uint64_t chain(uint64_t value, unsigned steps) {
  for (unsigned step = 0; step < steps; step++)
    __asm__ volatile("imul $3, %0, %0" : "+r"(value));
  return value;
}

/* The timed call. Its result is only stored, so that nothing after it waits for the chain. */
static __attribute__((noinline)) void call_of(uint64_t value, unsigned steps) {
  sink = chain(value, steps);
}
static void (*volatile call)(uint64_t, unsigned) = call_of;

#define CPUID __asm__ volatile("cpuid" : "=a"(a) : "a"(0) : "ebx", "ecx", "edx", "memory")
static inline __attribute__((always_inline)) uint64_t read_plain(void) {
  return __rdtsc();
}
static inline __attribute__((always_inline)) uint64_t read_after_fence(void) {
  _mm_lfence();
  return __rdtsc();
}
static inline __attribute__((always_inline)) uint64_t read_p(void) {
  unsigned processor;
  return __rdtscp(&processor);
}
static inline __attribute__((always_inline)) uint64_t read_before_fence(void) {
  uint64_t cycles = __rdtsc();
  _mm_lfence();
  return cycles;
}
static inline __attribute__((always_inline)) uint64_t read_p_before_fence(void) {
  uint64_t cycles = read_p();
  _mm_lfence();
  return cycles;
}
static inline __attribute__((always_inline)) uint64_t read_after_cpuid(void) {
  unsigned a;
  CPUID;
  return __rdtsc();
}
static inline __attribute__((always_inline)) uint64_t read_p_before_cpuid(void) {
  unsigned a;
  uint64_t cycles = read_p();
  CPUID;
  return cycles;
}

/* The mean advance over a call of some steps with some steps unfinished before it, without interrupted readings (more
   than twice the median); and the time of one round without the timed call, in ns. */
struct reading {
  double cycles, round_ns;
};
typedef struct reading measure(unsigned steps, unsigned earlier);

static int by_value(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return a < b ? -1 : a > b;
}

static double trimmed_mean(uint64_t *advances) {
  qsort(advances, SAMPLES, sizeof *advances, by_value);
  double sum = 0;
  unsigned count = 0;
  for (; count < SAMPLES && advances[count] <= 2 * advances[SAMPLES / 2] + 1; count++)
    sum += (double)advances[count];
  return sum / count;
}

#define RECIPE(name, first, second)                                                                                    \
  static struct reading name(unsigned steps, unsigned earlier) {                                                       \
    static uint64_t advances[SAMPLES];                                                                                 \
    uint64_t began_ns = os_monotonic_ns();                                                                             \
    for (unsigned sample = 0; sample < SAMPLES; sample++) {                                                            \
      uint64_t unfinished = chain(sample, earlier);                                                                    \
      uint64_t begin = first();                                                                                        \
      call(sample, steps);                                                                                             \
      advances[sample] = second() - begin;                                                                             \
      __asm__ volatile("" ::"r"(unfinished));                                                                          \
    }                                                                                                                  \
    double round_ns = (double)(os_monotonic_ns() - began_ns) / SAMPLES;                                                \
    return (struct reading){trimmed_mean(advances), round_ns};                                                         \
  }
static inline uint64_t no_reading(void) {
  return 0;
}
RECIPE(nothing, no_reading, no_reading)
RECIPE(plain, read_plain, read_plain)
RECIPE(fence_first, read_after_fence, read_after_fence)
RECIPE(fence_p, read_after_fence, read_p)
RECIPE(fences_inside, read_before_fence, read_after_fence)
RECIPE(fences_inside_p, read_before_fence, read_p)
RECIPE(fences_p, os_stamp, read_p_before_fence)
RECIPE(three_fences, os_stamp, read_after_fence)
RECIPE(fences, os_stamp, os_stamp)
RECIPE(cpuid, read_after_cpuid, read_p_before_cpuid)

static const struct {
  const char *name;
  measure *measure;
} RECIPES[] = {
    {"rdtsc ... rdtsc", plain},
    {"lfence rdtsc ... lfence rdtsc", fence_first},
    {"lfence rdtsc ... rdtscp", fence_p},
    {"rdtsc lfence ... lfence rdtsc", fences_inside},
    {"rdtsc lfence ... rdtscp", fences_inside_p},
    {"lfence rdtsc lfence ... rdtscp lfence", fences_p},
    {"lfence rdtsc lfence ... lfence rdtsc", three_fences},
    {"lfence rdtsc lfence ... lfence rdtsc lfence", fences},
    {"cpuid rdtsc ... rdtscp cpuid", cpuid},
};

static int by_double(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return a < b ? -1 : a > b;
}

enum { ROUNDS = 9 };

static struct reading median_reading(measure *how, unsigned steps, unsigned earlier) {
  double cycles[ROUNDS], ns[ROUNDS];
  for (int round = 0; round < ROUNDS; round++) {
    struct reading reading = how(steps, earlier);
    cycles[round] = reading.cycles;
    ns[round] = reading.round_ns;
  }
  qsort(cycles, ROUNDS, sizeof *cycles, by_double);
  qsort(ns, ROUNDS, sizeof *ns, by_double);
  return (struct reading){cycles[ROUNDS / 2], ns[ROUNDS / 2]};
}

/* Cycles of the counter that one step takes. */
static double step_cycles(void) {
  enum { STEPS = 2000000 };
  double best = 1e9;
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t begin = os_stamp();
    sink = chain(1, STEPS);
    double each = (double)(os_stamp() - begin) / STEPS;
    best = each < best ? each : best;
  }
  return best;
}

int main(void) {
  static const unsigned LENGTHS[] = {10, 30, 100};
  double step = step_cycles();
  double without_ns = median_reading(nothing, 0, 0).round_ns;
  printf("A step takes %.2f cycles of the counter (%.0f MHz).\n\n", step, os_cycles_hz(50000000) / 1e6);
  puts("| readings | cost of both, ns | empty call, cycles | error of 10 steps | 30 | 100 | counted of 100 before |");
  puts("|---|---|---|---|---|---|---|");
  for (size_t recipe = 0; recipe < sizeof RECIPES / sizeof *RECIPES; recipe++) {
    measure *how = RECIPES[recipe].measure;
    struct reading empty = median_reading(how, 0, 0);
    printf("| %s | %.1f | %.1f |", RECIPES[recipe].name, empty.round_ns - without_ns, empty.cycles);
    for (size_t length = 0; length < sizeof LENGTHS / sizeof *LENGTHS; length++)
      printf(" %+.1f |", median_reading(how, LENGTHS[length], 0).cycles - empty.cycles - LENGTHS[length] * step);
    printf(" %.0f of %.0f |\n", median_reading(how, 0, EARLIER_STEPS).cycles - empty.cycles, EARLIER_STEPS * step);
  }
  return 0;
}

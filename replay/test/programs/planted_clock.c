/* SPDX-License-Identifier: MIT */
#include "replay/test/programs/planted_clock.h"

#include <stdatomic.h>

#undef getrusage

static __thread uint64_t cycles, switches;
static __thread volatile uint64_t switch_word;
static _Atomic uint64_t monotonic_ns;

uint64_t planted_cycles(void) {
  uint64_t now = cycles;
  cycles += PLANTED_READING_CYCLES;
  return now;
}

uint64_t planted_thread_cpu_ns(void) {
  return cycles;
}

uint64_t planted_monotonic_ns(void) {
  return atomic_load(&monotonic_ns);
}

void planted_sleep_until_ns(uint64_t until_ns) {
  uint64_t now_ns = atomic_load(&monotonic_ns);
  while (now_ns < until_ns && !atomic_compare_exchange_weak(&monotonic_ns, &now_ns, until_ns))
    ;
}

struct os_clocks planted_read_clocks(clockid_t clock) {
  (void)clock;
  return (struct os_clocks){planted_monotonic_ns(), planted_cycles()};
}

double planted_cycles_hz(uint64_t interval_ns) {
  (void)interval_ns;
  return 1e9;
}

volatile uint64_t *planted_switch_word(void) {
  return &switch_word;
}

uint64_t planted_switch_armed(void) {
  return 1;
}

int planted_getrusage(int who, struct rusage *usage) {
  int status = getrusage(who, usage);
  usage->ru_nivcsw = (long)switches;
  return status;
}

void planted_spend(uint64_t spent_cycles) {
  cycles += spent_cycles;
}

void planted_switch(int involuntary) {
  switch_word = 0;
  switches += involuntary != 0;
}

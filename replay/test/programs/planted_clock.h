/* SPDX-License-Identifier: MIT */
/* The clocks of the engine with which tests measure planted costs: they advance only by what is planted.

   Job: replace the counter, the clocks and the kernel's reports of preemption. Each source of that engine is compiled
   with `-include` of this file, which renames the functions of the os seam; the shipped engine
   is built from the same sources without this file. Not its job: deciding what anything costs (planted_allocator.c).
   Invariants: a thread's counter advances by PLANTED_READING_CYCLES at each reading and by the argument of
   planted_spend, and by nothing else; one cycle is one nanosecond of that thread's CPU time; CLOCK_MONOTONIC is one for
   the process and advances only by sleeping. So a span costs exactly what was planted in it and one reading, however
   busy the machine is. */
#pragma once

#include "core/base/os.h"
#include "core/base/os_switch.h"

#include <sys/resource.h>

enum { PLANTED_READING_CYCLES = 32 };

/* Returns the calling thread's cycles, this reading included. */
uint64_t planted_cycles(void);
uint64_t planted_thread_cpu_ns(void);

/* The process's time; a sleep ends at once. */
uint64_t planted_monotonic_ns(void);
void planted_sleep_until_ns(uint64_t monotonic_ns);

/* Reads both clocks, at 1 GHz. */
struct os_clocks planted_read_clocks(clockid_t clock);
double planted_cycles_hz(uint64_t interval_ns);

/* As os_switch.h and getrusage(2), but with planted context switches only. */
volatile uint64_t *planted_switch_word(void);
uint64_t planted_switch_armed(void);
int planted_getrusage(int who, struct rusage *usage);

/* For the allocator under test, which finds them by name: the calling thread takes that many cycles; it was off its
   processor, voluntarily (in a lock) or not. */
__attribute__((visibility("default"))) void planted_spend(uint64_t cycles);
__attribute__((visibility("default"))) void planted_switch(int involuntary);

#define os_cycles planted_cycles
#define os_span_begin planted_cycles
#define os_span_end planted_cycles
#define os_read_clocks planted_read_clocks
#define os_cycles_hz planted_cycles_hz
#define os_thread_cpu_ns planted_thread_cpu_ns
#define os_monotonic_ns planted_monotonic_ns
#define os_sleep_until_ns planted_sleep_until_ns
#define os_switch_word planted_switch_word
#define os_switch_armed planted_switch_armed
#define getrusage planted_getrusage

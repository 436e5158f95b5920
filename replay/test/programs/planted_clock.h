/* SPDX-License-Identifier: MIT */
/* The clocks of the engine with which tests measure planted costs: they advance only by what is planted.

   Job: replace the counter, the clocks and the kernel's reports of preemption. Each source of that engine is compiled
   with `-include` of this file, which renames the functions of the os seam and that of one access; the shipped engine
   is built from the same sources without this file. Not its job: deciding what anything costs (planted_allocator.c).
   Invariants: a thread's counter advances by PLANTED_READING_CYCLES at each reading, by the argument of planted_spend,
   by accesses of the accesses pass, and by nothing else; one cycle is one nanosecond of that
   thread's CPU time; CLOCK_MONOTONIC is one for the process and advances only by sleeping. So a span costs exactly what
   was planted in it and one reading, however busy the machine is. */
#pragma once

#include "core/base/os.h"
#include "core/base/os_switch.h"
#include "replay/accesses/access_byte.h"

#include <sys/resource.h>

enum { PLANTED_READING_CYCLES = 32, PLANTED_ACCESS_CYCLES = 3, PLANTED_LINE_CYCLES = 200 };

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

/* access_byte.h: the access, which takes PLANTED_ACCESS_CYCLES, and PLANTED_LINE_CYCLES more if it is to another line
   than the process's previous access. PLANTED_ACCESS_LOG: a file to which its address is appended, 8 bytes. */
uint8_t planted_access_byte(volatile uint8_t *at);

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
#define access_byte planted_access_byte
#define PREPARED_PIECE_ITEMS 64u /* so that short streams have several */

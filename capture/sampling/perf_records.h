/* SPDX-License-Identifier: MIT */
/* Turns the kernel's records of sampled events (linux/perf_event.h) into samples of data accesses.

   Job: one run of complete records, from a kernel ring or from a file, and the counts of other records. Not its job:
   opening events, reading rings (perf_source.h), assigning samples to processes. Invariants: pure; bytes are not
   trusted: an invalid record ends the run, as the next record's beginning is then not known, and is counted. */
#pragma once

#include "core/trace/summary.h"

#include <stddef.h>

/* The sample fields of every event here, in the order of the record: process and thread, time, address, and with
   PERF_SAMPLE_DETAIL latency and source. */
enum { PERF_SAMPLE_BASE = 1 << 1 | 1 << 2 | 1 << 3, PERF_SAMPLE_DETAIL = 1 << 14 | 1 << 15 };

/* The clock of the records' times. */
struct perf_clock {
  bool cycles;                 /* times are of the cycle counter, scaled as the kernel's ring page says */
  uint64_t zero;               /* if so: time of cycle 0 */
  uint32_t multiplier;         /* cycles x multiplier >> shift is time minus zero; not 0 */
  uint16_t shift;              /* below 64 */
  uint64_t now_ns, now_cycles; /* else times are in ns: one pair of readings of both clocks, */
  double cycles_per_ns;        /* and their ratio */
};

/* One sample; its stamp is of the cycle counter. */
struct perf_sample {
  uint32_t pid;
  bool kernel;                       /* the kernel made the access */
  struct trace_access_sample access; /* address 0: the processor reported none */
};

struct perf_records {
  bool detail;   /* records have PERF_SAMPLE_DETAIL */
  uint8_t level; /* enum access_level of samples without it */
  struct perf_clock clock;
  void (*take)(void *context, const struct perf_sample *sample);
  void *context;
  uint64_t lost, throttled; /* as in struct trace_access_sample_totals */
  uint64_t damaged;         /* invalid records */
};

/* Takes the records in those bytes. */
void perf_records_take(struct perf_records *records, const uint8_t *bytes, size_t count);

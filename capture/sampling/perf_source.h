/* SPDX-License-Identifier: MIT */
/* Sampled data accesses of a program and of all processes that it starts, from the kernel's events on each processor.

   Job: opens the events for a process that has not become its program yet, reads their rings, and turns the records'
   times into the cycle counter's. Not its job: which event (perf_pmu.h), what records mean (perf_records.h), assigning
   samples to processes. Invariants: nothing is sampled before the process becomes the program; samples for which the
   rings had no room are counted. One thread. Allocates with malloc.

   There is one event for each processor, which the program's threads and children inherit: an event of one thread could
   not both be inherited and have a ring. */
#pragma once

#include "capture/sampling/perf_pmu.h"
#include "capture/sampling/perf_records.h"

struct perf_source;

/* SAMPLING_MEMORY_PERIOD: some thousands of samples a second of a program that misses often. */
enum { SAMPLING_MEMORY_PERIOD = 1009, SAMPLING_FAULTS_PERIOD = 1 };

/* Opens the events of process pid, from its next exec on. period: one sample per `period` events (perf_event_choice);
   0: the default. Returns 0, or -1 with an error that names the event and the reason. */
int perf_source_open(struct perf_source **out, enum sampling_kind kind, uint64_t period, int pid, struct error *error);

/* The next event, from *at = 0 on, and its period; NULL: there are no more. */
const char *perf_source_event(const struct perf_source *source, uint32_t *at, uint64_t *period);

/* A descriptor of each ring, from *at = 0 on, which is readable when the ring is half full; -1: there are no more. */
int perf_source_descriptor(const struct perf_source *source, uint32_t *at);

/* Passes the samples in the rings to take, ring by ring, so not in order of time. Returns the number of samples. */
uint64_t perf_source_read(struct perf_source *source, void (*take)(void *context, const struct perf_sample *sample),
                          void *context);

/* Samples lost so far, and how often sampling was throttled. The kernel reports a loss with the next sample that finds
   room. asked: queries the kernel, so that the last losses are counted too (from Linux 6.0 on), by a system call for
   each event. */
uint64_t perf_source_lost(const struct perf_source *source, bool asked);
uint64_t perf_source_throttled(const struct perf_source *source);

/* source may be NULL. */
void perf_source_close(struct perf_source *source);

/* SPDX-License-Identifier: MIT */
/* Which of the kernel's events sample data addresses on this machine, by the kernel's description of its PMUs
   (/sys/bus/event_source/devices: type, events, format).

   Not its job: opening them (perf_source.h). Invariants: starts and changes nothing; files of any content lead to a
   request or an error. Not supported: processors with cores of two kinds (cpu_core and cpu_atom). */
#pragma once

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define PERF_PMU_ROOT "/sys/bus/event_source/devices"

enum sampling_kind {
  SAMPLING_NONE,
  SAMPLING_MEMORY,      /* loads and stores, by the processor's PMU */
  SAMPLING_PAGE_FAULTS, /* by the kernel, on any machine */
};

/* Loads are sampled from this latency on: loads that the first-level cache serves are left out. */
enum { SAMPLED_LOAD_LATENCY_CYCLES = 30, SAMPLED_STORES_FACTOR = 64, SAMPLED_OPERATIONS_FACTOR = 256 };

enum { PERF_EVENTS_MAX = 3 };

/* What perf_event_attr needs of an event. */
struct perf_event_choice {
  char name[64]; /* as `perf record -e` takes it */
  uint32_t type;
  uint64_t config[3];
  uint8_t precise;
  uint32_t period_factor; /* of the requested period: more frequent events are sampled less often */
  bool samples;           /* else it only has to be opened before the next one, in the same group */
};

struct perf_event_choices {
  struct perf_event_choice events[PERF_EVENTS_MAX];
  uint32_t count;
  bool detail; /* records have latency and source */
};

/* root: PERF_PMU_ROOT, or a folder like it. Returns 0, or -1 with an error that names what was searched. */
int perf_pmu_choose(struct perf_event_choices *choices, const char *root, enum sampling_kind kind, struct error *error);

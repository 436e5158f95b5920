/* SPDX-License-Identifier: MIT */
/* The processor's counters that a bare pass reads (replay/passes/pmu.h): plain types for the shared result. */
#pragma once

#include <stdint.h>

enum pmu_event {
  PMU_TASK_CLOCK, /* ns */
  PMU_INSTRUCTIONS,
  PMU_CYCLES,
  PMU_CACHE_REFERENCES,
  PMU_CACHE_MISSES,
  PMU_L1D_MISSES,
  PMU_DTLB_MISSES,
  PMU_BRANCHES,
  PMU_BRANCH_MISSES,
  PMU_EVENTS
};

struct pmu_count {
  int error;    /* errno of opening or reading it; 0: it counted */
  double share; /* of the time in which it counted; 1 if it shared no hardware counter */
  uint64_t value;
};

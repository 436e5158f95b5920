/* SPDX-License-Identifier: MIT */
/* The processor's own counters over a process and all that it starts: instructions, cycles, cache, TLB and branch
   misses, in user space.

   Job: open counters by perf_event_open, of this process or of another, read them, and say why one does not count. Not
   its job: single calls, as a reading costs more than a call. Invariants: threads and processes that begin after the
   opening are counted, too, whether they have ended or not; no cost while they run. PMU_TASK_CLOCK needs no PMU: it
   shows that counting as such works. Counters that had to take turns are scaled up. Nothing here allocates with malloc
   or keeps state; any thread. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

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

extern const char *const pmu_names[PMU_EVENTS];

struct pmu_count {
  int error;    /* errno of opening or reading it, or PMU_NOT_WANTED; 0: it counted */
  double share; /* of the time in which it counted; 1 if it shared no hardware counter */
  uint64_t value;
};

struct pmu {
  int fds[PMU_EVENTS]; /* -1: not open */
  int errors[PMU_EVENTS];
};

enum { PMU_NOT_WANTED = -1 };
enum pmu_start { PMU_NOW, PMU_AT_EXEC };

/* Opens the events of the set `wanted` (bit 1 << event) on the process; 0: this one. What can't be opened has an
   error. PMU_AT_EXEC: they count from its next exec on.
   The caller closes them by pmu_read. */
void pmu_open(struct pmu *pmu, pid_t process, unsigned wanted, enum pmu_start start);

/* Stops the counters, reads and closes them. */
void pmu_read(struct pmu *pmu, struct pmu_count counts[PMU_EVENTS]);

/* Why an event does not count, in words. */
const char *pmu_why(int error);

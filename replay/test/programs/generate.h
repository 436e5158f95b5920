/* SPDX-License-Identifier: MIT */
/* Makes small legal workloads for the engine's tests and benchmarks: random ops of every kind, with the waits they
   need.

   Deterministic for a shape. Prints and exits on failure, as only test programs use it. */
#pragma once

#include "core/workload/workload_write.h"

#include <stdbool.h>

struct shape {
  uint64_t ops;
  uint32_t threads;        /* in total */
  uint32_t threads_live;   /* at the same time; 0: all of them from their first op to the end */
  uint32_t live_objects;   /* about this many */
  uint64_t size_limit;     /* requests are below this, most of them small */
  unsigned remote_percent; /* of the releases: by another thread than the object's last */
  uint32_t run_ops;        /* consecutive ops of one thread, on average; 0: 1 */
  bool only_malloc_free;
  bool steady;     /* once live_objects live, frees and acquires alternate, as in larson; else they are random */
  bool free_all;   /* nothing is live at the end */
  uint64_t gap_ns; /* recorded time between two ops; 0: times are not known */
  uint64_t seed;
};

struct generated {
  uint64_t ops, live_end_bytes, live_end_objects, peak_live_bytes;
  uint64_t calls[64];
};

struct generated generate_workload(const char *path, const struct shape *shape);

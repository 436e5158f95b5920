/* SPDX-License-Identifier: MIT */
/* Synthetic traces of any length, for benchmarks: threads share a set of live objects, free mostly young ones
   regardless of the thread that made them, and reuse addresses by size; sizes are skewed. Every event is stamped and
   runs of one thread are short: this is harder than a real program. */
#pragma once

#include "core/base/error.h"

#include <stdint.h>

struct generated_trace {
  uint64_t events;
  uint32_t threads;
  uint64_t live_objects;
  uint32_t run;   /* mean number of consecutive events of a thread */
  uint32_t sites; /* call stacks; 0: none are recorded */
};

/* From up to five numbers in that order, as text; defaults: 20,000,000, 4, 200,000, 16, 0. */
struct generated_trace generated_trace_shape(int count, char **numbers);

/* Returns 0, or -1 with error. */
int generate_trace(const char *path, const struct generated_trace *shape, struct error *error);

/* SPDX-License-Identifier: MIT */
/* A run as JSON: one element of the results' "runs". What the passes' JSON has in common.

   Not its job: where the JSON goes; the figures of a pass (replay/passes/). Figures are in cycles of the calibrated
   counter, bytes and ns; what a pass does not measure is absent, never 0. Allocates with malloc (in the parent). */
#pragma once

#include "core/base/json.h"
#include "replay/parent/run.h"

#include <stddef.h>

/* Returns a new object, the caller's. Call it when all runs are over (run_cycles_hz). */
json_t *report_run(const struct run *run);

/* Returns the engine's own cost, in cycles per op, as given or measured; < 0: neither. */
double report_engine_cycles(const struct run *run);

/* A binary table as text: zlib, then base64 ("zlib+base64"). Returns a new string, which the caller frees; NULL: no
   memory. */
char *report_packed(const void *bytes, size_t count);

/* Allocators may give back memory that the engine had before them; less than the baseline counts as 0. */
static inline uint64_t above(uint64_t value, uint64_t baseline) {
  return value > baseline ? value - baseline : 0;
}

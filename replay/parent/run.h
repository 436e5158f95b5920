/* SPDX-License-Identifier: MIT */
/* Makes one run: starts the engine process, watches it, collects its measurements. The parent's half.

   Invariants: the engine gets its own fresh process, which dies with this one; a run that fails gives one error with
   the reason (the workload's offset, or which op of which thread the allocator died at), and leaves no process. An
   engine that makes no progress for 60 s, or whose threads all wait for one another for 3 s, is killed and reported.
   Single-threaded. */
#pragma once

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/system/valgrind.h"
#include "replay/engine/pass.h"
#include "replay/engine/result.h"
#include "replay/parent/syscalls.h"

#include <stddef.h>

struct run {
  const struct run_spec *spec;
  struct replay_result *result; /* mapped; run_free unmaps it */
  void *figures;                /* the pass's, in the same area */
  uint64_t result_bytes;
  int result_fd;
  int copy_fd; /* of this program, for the spec's loader; -1: none */
  bool under_valgrind;
  bool wrong_preload; /* the spec names no file as its allocator: wrong usage */
  struct syscalls syscalls;
  struct baseline baseline; /* measured by a pass that needs it */
  double engine_ns_per_op;  /* the same; < 0: not measured */
  double engine_wall_ns_per_op;
  json_t *engine_counters; /* per op, measured with it; NULL: none */
  json_t *counted;         /* what our Valgrind tool wrote; NULL: nothing */
  void *own;               /* the pass's, from malloc */
};

/* Makes the area, then starts and watches the engine as the pass says. Returns 0, or -1 with error filled in. Call
   run_free in either case. */
int run_engine(struct run *run, const struct run_spec *spec, struct error *error);
void run_free(struct run *run);

/* For passes: the two halves of a run without any pass's own steps. valgrind: the engine runs under it; NULL: not. The
   spec must stay as long as the run. Return 0, or -1 with error filled in. */
int run_open(struct run *run, const struct run_spec *spec, struct error *error);
int run_process(struct run *run, const struct run_spec *spec, struct valgrind_command *valgrind, struct error *error);

/* Returns the same spec, quiet and on the engine's own allocator. */
struct run_spec run_spec_without_allocator(const struct run_spec *spec);

/* Returns the frequency of the cycle counter, measured since this process's first run; sleeps where that is too short.
   Call it when all runs are over, as the result is kept: a sleep after each run would cost as much as a short run. */
double run_cycles_hz(void);

/* A run as JSON: one element of the results' "runs". What the passes' JSON has in common.

   Figures are in cycles of the calibrated counter, bytes and ns; what a pass does not measure is absent, never 0.
   Allocates with malloc (in the parent). */

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

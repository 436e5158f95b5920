/* SPDX-License-Identifier: MIT */
/* Makes one run: starts the engine process, watches it, collects its measurements. The parent's half.

   Not its job: options (replay_main.c), output (report.c), measuring (engine.c).
   Invariants: the engine gets its own fresh process, which dies with this one; a run that fails gives one error with
   the reason (the workload's offset, or which op of which thread the allocator died at), and leaves no process. An
   engine that makes no progress for 60 s, or whose threads all wait for one another for 3 s, is killed and reported.
   Single-threaded. */
#pragma once

#include "replay/engine/result.h"
#include "replay/parent/syscalls.h"
#include "replay/passes/instruction_counter.h"
#include "replay/passes/miss_counter.h"

struct run_request {
  const char *path; /* workload */
  int workload_fd;
  uint32_t threads, slots;
  uint64_t ops;
  enum replay_pass pass;
  enum replay_order order;
  enum touch_policy touch;
  const struct window_edges *edges; /* instructions and misses pass; NULL: none */
  /* Misses pass: the file of recorded accesses; NULL: none. Caches and TLBs in the tool's syntax; NULL: its defaults.
   */
  const char *accesses, *caches, *tlbs;
  const char *origins;        /* blame pass: file; NULL: none */
  const json_t *origin_names; /* blame pass: the file's JSON */
  struct blame_setup blame;
  uint64_t touch_bound_bytes; /* touch.h */
  uint64_t window, op_limit, seed, disturb_lines;
  double speed;
  bool as_malloc, threads_to_cores, real_clock;
  bool null_allocator, baseline_only;
  bool aslr;             /* leave address space randomisation as it is */
  char *const *preloads; /* NULL-terminated; NULL: none */
  char *const *settings; /* NAME=VALUE, NULL-terminated; NULL: none */
  int progress_fd;       /* -1: none */
};

struct run {
  struct replay_result *result; /* mapped; run_free unmaps it */
  uint64_t result_bytes;
  struct syscalls syscalls;
  struct instruction_counts instructions; /* instructions pass */
  struct access_stream accesses;          /* misses pass */
  json_t *simulated;                      /* misses pass: the tool's result; NULL: none */
};

/* The engine's memory just before its first op, without an allocator under test: to be subtracted. */
struct baseline {
  uint64_t rss_anon_bytes, vm_size_bytes;
};

/* Returns 0, or -1 with error filled in. Call run_free in either case. */
int run_engine(struct run *run, const struct run_request *request, struct error *error);
void run_free(struct run *run);

/* Returns the frequency of the cycle counter, measured since this process's first run; sleeps where that is too short.
   Call it when all runs are over, as the result is kept: a sleep after each run would cost as much as a short run. */
double run_cycles_hz(void);

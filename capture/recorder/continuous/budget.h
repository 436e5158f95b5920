/* SPDX-License-Identifier: MIT */
/* When to record, so that recording costs at most a share of the program's own CPU time: a controller.

   What the program uses earns credit, what recording costs is taken from it. Recording begins when the credit has
   reached a height that is drawn by chance, and stops when there is none left; so bursts become shorter under load and
   longer where little is to record, and come at moments that no period of the program can follow. Credit is kept up to
   twice what BUDGET_PERIOD_NS of the program earn, so that idle times leave no more than that to spend at once. While
   the program runs, the cost is therefore over any time at most the share, plus that credit, plus what one burst spent
   between its last two steps. A debt is paid off, but for what goes beyond ten periods: the recorder's waking while the
   program sleeps for a night would else leave nothing to record in the morning.

   Not its job: reading clocks and counters, pausing. Pure: it knows no time but what it is given. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* CPU time of the program from one burst to the next, on average. */
#define BUDGET_PERIOD_NS 1e9

/* What happened since the step before. */
struct budget_use {
  uint64_t program_ns;  /* CPU time of the recorded processes, their hooks included */
  uint64_t recorder_ns; /* CPU time of the recorder */
  uint64_t recorded;    /* calls */
  uint64_t skipped;     /* calls that were counted alone */
};

struct budget {
  double share;                   /* above 0, at most 1 */
  double recorded_ns, skipped_ns; /* what a call of each kind costs in the program */
  double credit_ns;               /* negative: a debt */
  double begin_ns;                /* credit at which the next burst begins */
  uint64_t random;
  bool records;
  uint64_t program_ns, cost_ns; /* in all */
};

/* Begins between two bursts, without credit. seed: of the random numbers. */
void budget_begin(struct budget *budget, double share, uint64_t seed);

/* Takes what was used since the step before into account. Returns whether to record from now on. */
bool budget_step(struct budget *budget, const struct budget_use *use);

/* What recording has cost by now, in percent of the program's CPU time. */
double budget_used_percent(const struct budget *budget);

/* SPDX-License-Identifier: MIT */
/* The budget of a recording (--budget) is a controller: the program's CPU time earns credit; the cost of recording is
   taken from it. Recording begins when the credit reaches a randomly drawn level, and stops when no credit is left. So
   bursts become shorter under load and longer where there is little to record, and begin at moments that follow no
   period of the program. At most twice the credit that BUDGET_PERIOD_NS of the program earn is kept, so that idle times
   leave no more than that to spend at once. While the program runs, the cost over any time is therefore at most the
   share, plus that credit, plus what one burst spent between its last two steps. A debt is paid off, except for what
   exceeds ten periods: otherwise, the recorder's waking while the program sleeps for a night would leave nothing to
   record in the morning.

   Job: when a burst begins and ends. Not its job: what that does (upkeep.c). Pure: all times are arguments. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* CPU time of the program from one burst to the next, on average. */
#define BUDGET_PERIOD_NS 1e9

/* What was used since the previous step. */
struct budget_use {
  uint64_t program_ns;  /* CPU time of the recorded processes, their hooks included */
  uint64_t recorder_ns; /* CPU time of the recorder */
  uint64_t recorded;    /* calls */
  uint64_t skipped;     /* calls that were only counted */
  uint64_t reading_ns;  /* what recording took in the processes beyond a time for each call */
};

struct budget {
  double share;                   /* above 0, at most 1 */
  double recorded_ns, skipped_ns; /* what a call of each kind costs in the program */
  double credit_ns;               /* negative: a debt */
  double begin_ns;                /* credit at which the next burst begins */
  uint64_t random;
  bool records;
  uint64_t program_ns, cost_ns; /* in total */
};

/* Begins between two bursts, without credit. seed: for the random numbers. */
void budget_begin(struct budget *budget, double share, uint64_t seed);

/* Accounts for what was used since the previous step. Returns whether to record from now on. */
bool budget_step(struct budget *budget, const struct budget_use *use);

/* What recording has cost so far, in percent of the program's CPU time. */
double budget_used_percent(const struct budget *budget);

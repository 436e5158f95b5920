/* SPDX-License-Identifier: MIT */
#include "capture/recorder/budget.h"

#include "core/base/split_mix.h"

static double draw(struct budget *budget) {
  return (double)(split_mix_next(&budget->random) >> 11) / (double)(1ull << 53);
}

static double per_period(const struct budget *budget) {
  return budget->share * BUDGET_PERIOD_NS;
}

/* From a fifth of the mean to nine fifths: a burst shorter than a fifth would consist of its beginning only. */
static void draw_begin(struct budget *budget) {
  budget->begin_ns = per_period(budget) * (0.2 + 1.6 * draw(budget));
}

void budget_begin(struct budget *budget, double share, uint64_t seed) {
  budget->share = share;
  budget->credit_ns = 0;
  budget->random = seed;
  budget->records = false;
  budget->program_ns = budget->cost_ns = 0;
  draw_begin(budget);
}

bool budget_step(struct budget *budget, const struct budget_use *use) {
  double hooks_ns = (double)use->recorded * budget->recorded_ns + (double)use->skipped * budget->skipped_ns;
  hooks_ns += (double)use->reading_ns;
  double own_ns = (double)use->program_ns - hooks_ns; /* the hooks' time earns no credit */
  double cost_ns = (double)use->recorder_ns + hooks_ns, most_ns = 2 * per_period(budget);
  double least_ns = -10 * per_period(budget);
  budget->credit_ns += budget->share * (own_ns > 0 ? own_ns : 0) - cost_ns;
  if (budget->credit_ns > most_ns)
    budget->credit_ns = most_ns;
  if (budget->credit_ns < least_ns)
    budget->credit_ns = least_ns;
  budget->program_ns += use->program_ns;
  budget->cost_ns += (uint64_t)cost_ns;
  if (budget->records && budget->credit_ns <= 0) {
    budget->records = false;
    draw_begin(budget);
  } else if (!budget->records && budget->credit_ns >= budget->begin_ns) {
    budget->records = true;
  }
  return budget->records;
}

double budget_used_percent(const struct budget *budget) {
  return budget->program_ns ? 100.0 * (double)budget->cost_ns / (double)budget->program_ns : 0;
}

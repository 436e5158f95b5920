/* SPDX-License-Identifier: MIT */
/* Quantiles of known samples are exact, whatever their order, and samples beyond the limit are left out. */
#include "core/test/check.h"
#include "observe/machine/measurement.h"

#include <math.h>

static struct samples samples;

int main(void) {
  CHECK(isnan(samples_quantiles(&samples).median));
  for (int value = 9; value >= 1; value--)
    samples_add(&samples, value);
  struct quantiles found = samples_quantiles(&samples);
  CHECK(found.least == 1 && found.quarter == 3 && found.median == 5 && found.three_quarters == 7);
  samples_add(&samples, 100);
  found = samples_quantiles(&samples);
  CHECK(found.median == 5.5 && found.quarter == 3.25 && found.three_quarters == 7.75);
  for (int more = 0; more < 2 * SAMPLES_MAX; more++)
    samples_add(&samples, 1000);
  CHECK(samples.count == SAMPLES_MAX);
  return 0;
}

/* SPDX-License-Identifier: MIT */
#include "observe/machine/samples.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

void samples_add(struct samples *samples, double value) {
  if (samples->count < SAMPLES_MAX)
    samples->values[samples->count++] = value;
}

static int by_value(const void *one, const void *two) {
  double a = *(const double *)one, b = *(const double *)two;
  return (a > b) - (a < b);
}

static double quantile(const struct samples *sorted, double share) {
  if (sorted->count == 0)
    return NAN;
  double place = share * (double)(sorted->count - 1);
  size_t below = (size_t)place, above = below + 1 < sorted->count ? below + 1 : below;
  return sorted->values[below] + (place - (double)below) * (sorted->values[above] - sorted->values[below]);
}

struct quantiles samples_quantiles(struct samples *samples) {
  qsort(samples->values, samples->count, sizeof samples->values[0], by_value);
  return (struct quantiles){quantile(samples, 0), quantile(samples, 0.25), quantile(samples, 0.5),
                            quantile(samples, 0.75)};
}

uint64_t samples_cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

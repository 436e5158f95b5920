/* SPDX-License-Identifier: MIT */
/* Samples of one figure, and their quantiles.

   Job: keeps the values of repeated short samples, and computes the minimum, the quartiles and the median. Not its job:
   to judge which of them is true. Not thread-safe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SAMPLES_MAX = 1024 };

struct samples {
  size_t count;
  double values[SAMPLES_MAX];
};

struct quantiles {
  double least, quarter, median, three_quarters;
};

/* Adds a value; beyond SAMPLES_MAX it is left out. */
void samples_add(struct samples *samples, double value);

/* Sorts the samples. A quantile between two of them is interpolated. Without samples all quantiles are NaN. */
struct quantiles samples_quantiles(struct samples *samples);

/* CPU time of the calling thread in ns, without that of other processes. */
uint64_t samples_cpu_ns(void);

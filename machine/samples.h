/* SPDX-License-Identifier: MIT */
/* Samples of one figure, and their quantiles.

   Job: keeps what repeated short samples gave, and computes the least, the quartiles and the median. Not its job: to
   judge which of them is true. Not thread-safe. */
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

/* Sorts the samples. Between two of them a quantile is interpolated. Without samples all are NaN. */
struct quantiles samples_quantiles(struct samples *samples);

/* CPU time of the calling thread in ns: what other processes take is not in it. */
uint64_t samples_cpu_ns(void);

/* SPDX-License-Identifier: MIT */
/* Classes of request sizes: the buckets of core/workload/statistics.h; the last has no upper limit. Thread-safe. */
#pragma once

#include "core/workload/statistics.h"

enum { SIZE_CLASSES = 128 };

static inline unsigned size_class(uint64_t bytes) {
  unsigned bucket = size_bucket(bytes);
  return bucket < SIZE_CLASSES ? bucket : SIZE_CLASSES - 1;
}

/* SPDX-License-Identifier: MIT */
/* Finds where the live bytes of each size class are highest: one position in each of a number of equal parts of a
   workload; and once where all live bytes are highest.

   A position is that of the op after which they are highest. An object is in the size class of its last request. A part
   in which a class does not change has no position for it. One walk; memory is O(slots + parts). Not thread-safe. */
#pragma once

#include "convert/distil/size_classes.h"
#include "core/base/vector.h"
#include "core/workload/workload_read.h"

enum { HIGH_OF_ALL = SIZE_CLASSES };

struct high {
  uint64_t position;
  unsigned class; /* HIGH_OF_ALL: all live bytes */
};

struct highs {
  VECTOR(struct high) at; /* by position */
};

/* parts: at least 1. Returns 0, or -1 with error. To be freed with free(highs.at.at) in either case. */
int highs_find(struct highs *highs, const struct workload *workload, uint64_t parts, struct error *error);

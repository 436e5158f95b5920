/* SPDX-License-Identifier: MIT */
/* Where the live bytes of each size class are at their high: one position in each of some equal parts of a workload;
   and where all live bytes are, once.

   A position is that of the op behind which they are; an object is in the class of what was requested for it last. Of a
   part in which a class does not change, none is told. One walk; memory is O(slots + parts). Not thread-safe. */
#pragma once

#include "convert/distil/size_classes.h"
#include "core/base/vector.h"
#include "core/workload/workload_read.h"

enum { HIGH_OF_ALL = SIZE_CLASSES };

struct high {
  uint64_t position;
  unsigned class; /* HIGH_OF_ALL: of all */
};

struct highs {
  VECTOR(struct high) at; /* by position */
};

/* parts: at least 1. Returns 0, or -1 with error. To be freed with free(highs.at.at) in either case. */
int highs_find(struct highs *highs, const struct workload *workload, uint64_t parts, struct error *error);

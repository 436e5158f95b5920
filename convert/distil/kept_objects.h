/* Which objects of a workload a distillate has: those that are live at any op of a kept window or its warm-up, and of
   the others a share, by hash; or those that the plan names one by one.

   Whether an object that is born between two windows lives into the next is known only there, so a first walk over all
   ops writes the numbers of those that do into a temporary file, in the order of their births; later walks ask birth
   for birth. Memory is O(slots). Not thread-safe. */
#ifndef CONVERT_DISTIL_KEPT_OBJECTS_H
#define CONVERT_DISTIL_KEPT_OBJECTS_H

#include "convert/distil/plan.h"
#include "core/base/temporary_file.h"
#include "core/workload/workload_read.h"

#include <stdbool.h>
#include <stdio.h>

struct kept_objects {
  const struct distil_plan *plan;
  size_t window; /* the first that does not end before the op */
  struct temporary_file file;
  FILE *numbers;     /* the same */
  uint64_t spanning; /* the next of its numbers; UINT64_MAX: no more */
};

/* Walks over all ops. The plan must outlive kept. Returns 0, or -1 with error; kept_objects_free in either case. */
int kept_objects_choose(struct kept_objects *kept, const struct workload *workload, const struct distil_plan *plan,
                        struct error *error);
void kept_objects_free(struct kept_objects *kept);

/* The births begin anew. Returns 0, or -1 with errno. */
int kept_objects_rewind(struct kept_objects *kept);

/* Is the object wanted that is born at position? number: it comes next. */
bool kept_objects_wants(struct kept_objects *kept, uint64_t number, uint64_t position, uint64_t request_bytes);

#endif

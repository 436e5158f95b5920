/* SPDX-License-Identifier: MIT */
/* Which objects of a workload a distillate has: those that the plan's rules select (plan.h).

   Whether an object lives into a window, or to a high of its size class, is known only there. So walks over all ops
   mark objects in a temporary file, one bit each; later walks look up the bit at each birth. Memory is O(slots), and
   that file. Not thread-safe. */
#pragma once

#include "convert/distil/plan.h"
#include "core/base/files.h"
#include "core/workload/workload_read.h"

#include <stdbool.h>

struct kept_objects {
  const struct distil_plan *plan;
  struct temporary_file file;
  uint8_t *marks; /* the file, mapped */
  uint64_t marks_bytes;
};

/* Walks over all ops. The plan must outlive kept. Returns 0, or -1 with error; kept_objects_free in either case. */
int kept_objects_choose(struct kept_objects *kept, const struct workload *workload, const struct distil_plan *plan,
                        struct error *error);
void kept_objects_free(struct kept_objects *kept);

/* Is the object of that number wanted? */
static inline bool kept_objects_wants(const struct kept_objects *kept, uint64_t number) {
  return number / 8 < kept->marks_bytes && (kept->marks[number / 8] >> number % 8 & 1);
}

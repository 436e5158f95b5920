/* SPDX-License-Identifier: MIT */
/* Walks a workload's ops in their total order, and gives the effect of each on its object.

   Objects are numbered from 0 in the order of their births; a call that is given NULL and acquires nothing counts as an
   object that is born and ends there (as in convert/rewrite/workload_trace.h). Invariant: the slot of each op is in the
   state that the op needs. Memory is O(slots + threads). Not thread-safe. */
#pragma once

#include "convert/distil/plan.h"
#include "core/base/files.h"
#include "core/workload/statistics.h"
#include "core/workload/workload_read.h"

#include <stdbool.h>

enum op_effect {
  OP_ALONE,   /* on no object: no slot */
  OP_BIRTH,   /* the object begins */
  OP_CHANGES, /* the object is there before and after */
  OP_DEATH,   /* the object ends */
};

struct object_walk {
  struct workload_ops ops; /* ops.op: the current op */
  enum op_effect effect;   /* the current op's */
  uint64_t objects;        /* begun so far, including those of OP_ALONE */
  uint8_t *full;           /* by slot */
  uint64_t full_bytes;
};

/* Returns 0, or -1 with error; it can be closed either way. */
int object_walk_open(struct object_walk *walk, const struct workload *workload, struct error *error);
void object_walk_close(struct object_walk *walk);

/* Moves to the next op. Returns 1; 0 at the end; -1 with error: the workload is not legal. */
int object_walk_next(struct object_walk *walk, struct error *error);

/* Does the current op release its object, even if only to acquire another in its place? */
bool object_walk_releases(const struct object_walk *walk);

/* Bytes that the current op requests in total. */
uint64_t object_walk_request_bytes(const struct object_walk *walk);

/* Classes of request sizes: the buckets of core/workload/statistics.h; the last has no upper limit. Thread-safe. */

enum { SIZE_CLASSES = 128 };

static inline unsigned size_class(uint64_t bytes) {
  unsigned bucket = size_bucket(bytes);
  return bucket < SIZE_CLASSES ? bucket : SIZE_CLASSES - 1;
}

/* Which objects of a workload a distillate has: those that the plan's rules select (plan.h).

   Whether an object lives into a window, or to a high of its size class, is known only there. So walks over all ops
   mark objects in a temporary file, one bit each; later walks look up the bit at each birth. Memory is O(slots), and
   that file. Not thread-safe. */

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
